"""TLS and passwords over TCP: certificates are verified, and no password is shown."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg
import pytest
import trustme

from devmem.errors import CollectionError
from devmem.model.items import MemoryItem
from devmem.storage import open_collection
from devmem.storage.postgres.location import Location
from tools.postgres_server import PostgresServer

from .tls_proxy import TlsProxy

pytestmark = pytest.mark.postgres

SECRET: Final = "hunter2/hunter2"


@dataclass
class Secured:
    """A server that asks for a password over TCP, and for TLS."""

    proxy: TlsProxy
    trusted: Path
    """Certificate of the authority that signed the server's."""
    stranger: Path
    """Certificate of another authority."""

    def url(self, user: str = "ann", *, host: str = "localhost", mode: str = "verify-full", **more: str) -> str:
        given = {"sslmode": mode, "sslrootcert": str(self.trusted), "hostaddr": "127.0.0.1", **more}
        parameters = "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items())
        return f"postgresql://{user}@{host}:{self.proxy.port}/postgres?store=notes&{parameters}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    stranger.cert_pem.write_to_path(folder / "stranger.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with closing(PostgresServer(tcp=True)) as server:
        with psycopg.connect(Location.parse(server.url()).conninfo, autocommit=True) as administrator:
            administrator.execute(f"CREATE ROLE ann LOGIN SUPERUSER PASSWORD '{SECRET}'")
            rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
            (server.data / "pg_hba.conf").write_text(rules)
            administrator.execute("SELECT pg_reload_conf()")
        with closing(TlsProxy(server.port, context)) as proxy:
            yield Secured(proxy, folder / "ca.pem", folder / "stranger.pem")


def works(url: str) -> None:
    with closing(open_collection(url, busy_timeout=5)) as notes:
        notes.clear()
        notes.add([MemoryItem(content_summary="The launch is in June.")])
        assert notes.count() == 1
        shown = f"{notes.info()!r} {notes!r} {vars(notes)!r}"
        assert SECRET not in shown
        assert quote(SECRET, safe="") not in shown


def refusal(url: str) -> str:
    with pytest.raises(CollectionError) as caught:
        open_collection(url, busy_timeout=5)
    shown = f"{caught.value} {caught.value!r} {caught.value.location}"
    for form in (SECRET, quote(SECRET, safe=""), "wrong-password"):
        assert form not in shown
    return str(caught.value)


def test_a_server_is_known_by_its_certificate(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)
    works(secured.url())
    assert "certificate" in refusal(secured.url(sslrootcert=str(secured.stranger)))
    assert "does not match host name" in refusal(secured.url(host="other.test"))
    before = secured.proxy.refused
    refusal(secured.url(mode="disable"))
    assert secured.proxy.refused > before


def test_a_password_in_the_url_is_not_shown(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        works(secured.url(f"ann:{quote(SECRET, safe='')}"))
        works(secured.url(password=SECRET))
        assert "password authentication failed" in refusal(secured.url("ann:wrong-password"))
        assert "no password supplied" in refusal(secured.url())
    for form in (SECRET, quote(SECRET, safe=""), "wrong-password"):
        assert form not in caplog.text


def test_a_password_is_read_from_a_pgpass_file(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pgpass"
    file.write_text(f"localhost:{secured.proxy.port}:*:ann:{SECRET}\n")
    file.chmod(0o600)
    works(secured.url(passfile=str(file)))
    monkeypatch.setenv("PGPASSFILE", str(file))
    works(secured.url())


def test_a_server_is_named_by_a_service_file(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "host": "localhost", "hostaddr": "127.0.0.1", "port": secured.proxy.port, "user": "ann", "password": SECRET,
        "dbname": "postgres", "sslmode": "verify-full", "sslrootcert": secured.trusted,
    }  # fmt: skip
    file = tmp_path / "services"
    file.write_text("[team]\n" + "".join(f"{name}={value}\n" for name, value in settings.items()))
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    works("postgresql://?service=team&store=notes")
