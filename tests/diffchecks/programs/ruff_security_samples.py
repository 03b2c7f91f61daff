"""For each of ruff's codes about security: text with the defect, and text without."""

from tests.diffchecks.programs.ruff_text import within

_SSH = "import paramiko\nc = paramiko.SSHClient()\n"
_RSA = "from cryptography.hazmat.primitives.asymmetric import rsa\n"

# code → (bad, good)
SAMPLES: dict[str, tuple[str, str]] = {
    "S602": (within("subprocess.run(x, shell=True)"), within("subprocess.run([x])")),
    "S604": (within("x.open(y, shell=True)"), within("x.open(y)")),
    "S605": (within("os.system(x)"), within("subprocess.run([x])")),
    "S501": (
        "import requests\nrequests.get('u', timeout=1, verify=False)\n",
        "import requests\nrequests.get('u', timeout=1)\n",
    ),
    "S323": ("ssl._create_unverified_context()\n", "ssl.create_default_context()\n"),
    "S502": (
        "ssl.wrap_socket(ssl_version=ssl.PROTOCOL_TLSv1)\n",
        "ssl.wrap_socket(ssl_version=ssl.PROTOCOL_SSLv23)\n",
    ),
    "S503": (
        "def f(version=ssl.PROTOCOL_TLSv1): ...\n",
        "def f(version=ssl.PROTOCOL_SSLv23): ...\n",
    ),
    "S507": (
        f"{_SSH}c.set_missing_host_key_policy(paramiko.AutoAddPolicy)\n",
        f"{_SSH}c.set_missing_host_key_policy(paramiko.RejectPolicy)\n",
    ),
    "S304": (
        "from cryptography.hazmat.primitives.ciphers import algorithms\nalgorithms.ARC4(b'k')\n",
        "from cryptography.hazmat.primitives.ciphers import algorithms\nalgorithms.AES(b'k')\n",
    ),
    "S305": (
        "from cryptography.hazmat.primitives.ciphers import modes\nmodes.ECB()\n",
        "from cryptography.hazmat.primitives.ciphers import modes\nmodes.GCM(b'i')\n",
    ),
    "S505": (
        f"{_RSA}rsa.generate_private_key(65537, 1024)\n",
        f"{_RSA}rsa.generate_private_key(65537, 3072)\n",
    ),
    "S324": (within("return hashlib.md5(x)", "def password(x):"), within("return hashlib.md5(x)")),
    "S303": (
        "from Crypto.Hash import MD5\n" + within("return MD5.new(x)", "def sign_token(x):"),
        "from Crypto.Hash import MD5\n" + within("return MD5.new(x)"),
    ),
    "S307": (
        "def f(text):\n    return eval(text)\n",
        "import ast\n\n\ndef f(text):\n    return ast.literal_eval(text)\n",
    ),
    "S506": (
        "import yaml\nyaml.load('a', Loader=yaml.Loader)\n",
        "import yaml\nyaml.safe_load('a')\n",
    ),
    "S202": (
        "tarfile.open('a').extractall('b')\n",
        "tarfile.open('a').extractall('b', filter='data')\n",
    ),
    "S306": ("tempfile.mktemp()\n", "tempfile.mkstemp()\n"),
    "S103": ("os.chmod('f', 0o777)\n", "os.chmod('f', 0o755)\n"),
    "S201": (
        "from flask import Flask\napp = Flask('a')\napp.run(debug=True)\n",
        "from flask import Flask\napp = Flask('a')\napp.run()\n",
    ),
    "S701": (
        "import jinja2\njinja2.Environment(autoescape=False)\n",
        "import jinja2\njinja2.Environment(autoescape=True)\n",
    ),
    "S508": (
        "from pysnmp.hlapi import CommunityData\nCommunityData('public', mpModel=0)\n",
        "from pysnmp.hlapi import CommunityData\nCommunityData('public', mpModel=3)\n",
    ),
    "S509": (
        "from pysnmp.hlapi import UsmUserData\nUsmUserData('user')\n",
        "from pysnmp.hlapi import UsmUserData\nUsmUserData('user', 'key', 'key')\n",
    ),
    "S612": (
        "from logging.config import listen\nlisten(9999)\n",
        "from logging.config import listen\nlisten(9999, verify=bytes)\n",
    ),
}
