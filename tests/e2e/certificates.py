"""Certificates for tests, made by the openssl command: authorities, and what they issue for roles of a cluster."""

import os
import subprocess

DOMAIN = "test.baton"
WORKERS = ("prefill-worker", "decode-worker", "mixed-worker")
ALL = ("router", *WORKERS)


def _openssl(*args):
    result = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr


class Issued:
    """A certificate with its key."""

    def __init__(self, cert, key, ca):
        self.cert, self.key, self.ca = cert, key, ca

    @property
    def flags(self):
        return ("--tls-cert", self.cert, "--tls-key", self.key, "--tls-ca", self.ca)

    def read(self):
        """As grpc.ssl_channel_credentials takes them."""
        return dict(root_certificates=self.ca.read_bytes(), private_key=self.key.read_bytes(),
                    certificate_chain=self.cert.read_bytes())

    def replace_by(self, other):
        """As a careful administrator does: each file is whole at any time."""
        for mine, new in ((self.cert, other.cert), (self.key, other.key), (self.ca, other.ca)):
            fresh = mine.with_suffix(".new")
            fresh.write_bytes(new.read_bytes())
            fresh.chmod(0o600)
            os.replace(fresh, mine)


class Authority:
    def __init__(self, folder, name="ca"):
        self.folder = folder / name
        self.folder.mkdir()
        self.cert, self.key = self.folder / "ca.pem", self.folder / "ca-key.pem"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
                 "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE",
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", self.key, "-out", self.cert)
        self._count = 0

    def issue(self, *roles, domain=DOMAIN, hosts=("IP:127.0.0.1", "DNS:localhost"), days=1, subject="/CN=test"):
        """A negative number of days: it has expired. The subject `/` is an empty one."""
        self._count += 1
        base = self.folder / f"{self._count}-{'-'.join(roles) or 'none'}"
        cert, key, request, extensions = (base.with_suffix(suffix) for suffix in (".pem", ".key", ".csr", ".ext"))
        names = [*hosts, *(f"URI:spiffe://{domain}/baton/{role}" for role in roles)]
        extensions.write_text("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
                              "extendedKeyUsage=serverAuth,clientAuth\n"
                              + (f"subjectAltName={'critical,' if subject == '/' else ''}{','.join(names)}\n" if names else ""))
        _openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
                 "-keyout", key, "-out", request)
        key.chmod(0o600)
        if days < 0:
            # `openssl x509` of version 3.0 cannot date a certificate back, `openssl ca` can.
            self._issue_expired(request, extensions, cert)
        else:
            _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial",
                     "-extfile", extensions, "-out", cert, "-days", days)
        return Issued(cert, key, self.cert)

    def _issue_expired(self, request, extensions, cert):
        database, config = self.folder / "index.txt", self.folder / "ca.cnf"
        database.write_text("")
        (self.folder / "serial").write_text(f"{1000 + self._count}\n")
        config.write_text(f"[ca]\ndefault_ca=d\n[d]\ndatabase={database}\nserial={self.folder / 'serial'}\n"
                          f"new_certs_dir={self.folder}\ndefault_md=sha256\npolicy=p\nunique_subject=no\n"
                          "[p]\ncommonName=supplied\n")
        _openssl("ca", "-batch", "-config", config, "-in", request, "-cert", self.cert, "-keyfile", self.key,
                 "-extfile", extensions, "-startdate", "20200101000000Z", "-enddate", "20200102000000Z", "-notext",
                 "-out", cert)
