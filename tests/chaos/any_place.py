"""The stores that a chaos run is played on, and what each of them needs."""

from chaos.faults import Faults, StoreFaults
from chaos.kept import Contents, ContentsOfFiles
from chaos.kept_in_servers import ContentsOfPostgres, ContentsOfRedis
from chaos.log import Log
from chaos.place import Place, PlaceError
from chaos.server_faults import ServerFaults
from chaos.server_place import ServerPlace

AnyPlace = Place | ServerPlace


def place_of(store: str, journal: str, megabytes: int) -> AnyPlace:
    """Return the store that is meant; raise PlaceError where there is none to be made."""
    if store not in ("postgres", "redis"):
        return Place(store, journal, megabytes=megabytes)
    if journal != "auto":
        raise PlaceError("only a SQLite store has a journal; right is no --journal")
    return ServerPlace("postgres" if store == "postgres" else "redis")


def faults_of(place: AnyPlace, log: Log) -> Faults:
    """Return what befalls such a store."""
    return StoreFaults(place, log) if isinstance(place, Place) else ServerFaults(place, log)


def contents_of(place: AnyPlace) -> Contents:
    """Return what is in it; a server must run."""
    if isinstance(place, Place):
        return ContentsOfFiles(place)
    if place.kind == "postgres":
        return ContentsOfPostgres(place.direct)
    return ContentsOfRedis(place.direct)
