-- Add records of holders that may still record their attempt: it is the run's latest and nobody
-- closed it, or it was released. An earlier attempt without a record was released too: of one that
-- was lost there is a record. Who made way for a newer run has ended it himself, and its row still
-- says so.

local jobs, slots, fences, texts = unpack(asked)

local places = {}
for i, job in ipairs(jobs) do
    places[i] = place_of(job, slots[i])
end
load_rows(places)
for i, job in ipairs(jobs) do
    local row = row_at(job, slots[i], places[i])
    local fence = fences[i]
    local is_closed = row and not row.cancelled and row.attempt > 0
        and (row.state == 'abandoned' or row.state == 'replaced')
    if row and (
        fence < row.fence or fence == row.released_fence or (fence == row.fence and not is_closed)
    ) then
        record(job, fence, texts[i])
    end
end
save_records()
