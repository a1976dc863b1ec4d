package servingcert_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/pki/servingcert"
)

// Example serves a certificate for the names in it, and the server's own everywhere else.
func Example() {
	dir, err := os.MkdirTemp("", "serving")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	corporate, err1 := pki.Open(filepath.Join(dir, "corporate"))
	authority, err2 := pki.New()
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	_, err1 = corporate.Serving("api", "api.example.com")
	own, err2 := authority.Serving("apiserver", "kubernetes.default.svc", "127.0.0.1")
	pair, err3 := servingcert.Open(servingcert.Files{Cert: filepath.Join(dir, "corporate", "api.crt"), Key: filepath.Join(dir, "corporate", "api.key")})
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Println(err)
		return
	}
	set := servingcert.Set{Default: pair}
	choose := set.Choose(func() *tls.Certificate { c := own.TLS(); return &c })
	for _, name := range []string{"api.example.com", "kubernetes.default.svc"} {
		served, err := choose(&tls.ClientHelloInfo{ServerName: name})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(name, served.Leaf.Subject.CommonName)
	}
	// Output:
	// api.example.com api
	// kubernetes.default.svc apiserver
}

// key makes a key of one of the kinds.
func key(t *testing.T, kind string) (made crypto.Signer) {
	t.Helper()
	var err error
	switch kind {
	case "RSA":
		made, err = rsa.GenerateKey(rand.Reader, 2048)
	case "Ed25519":
		_, made, err = ed25519.GenerateKey(rand.Reader)
	default:
		made, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// An issuer signs certificates as a company's authority does.
type issuer struct {
	certificate *x509.Certificate
	key         crypto.Signer
	dir         string
	serial      int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{key: key(t, "ECDSA"), dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "corporate"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, i.key.Public(), i.key)
	if err != nil {
		t.Fatal(err)
	}
	i.certificate, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *issuer) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(i.certificate)
	return pool
}

// write writes name.crt, with the authority behind the certificate, and name.key. The common name is that
// of the files.
func (i *issuer) write(t *testing.T, name, kind string, change func(*x509.Certificate), hosts ...string) servingcert.Files {
	t.Helper()
	i.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1 + i.serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if change != nil {
		change(template)
	}
	k := key(t, kind)
	der, err1 := x509.CreateCertificate(rand.Reader, template, i.certificate, k.Public(), i.key)
	keyDER, err2 := x509.MarshalPKCS8PrivateKey(k)
	f := servingcert.Files{Cert: filepath.Join(i.dir, name+".crt"), Key: filepath.Join(i.dir, name+".key")}
	chain := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.certificate.Raw})...)
	err3 := os.WriteFile(f.Cert, chain, 0o644)
	err4 := os.WriteFile(f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return f
}

func open(t *testing.T, f servingcert.Files, patterns ...string) *servingcert.Pair {
	t.Helper()
	f.Patterns = patterns
	pair, err := servingcert.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// ownOf returns the certificate of a server's own, and what trusts it.
func ownOf(t *testing.T) (func() *tls.Certificate, *pki.Authority) {
	t.Helper()
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Serving("own", "localhost", "127.0.0.1", "10.0.0.1", "kubernetes.default.svc", "lb.example.com")
	if err != nil {
		t.Fatal(err)
	}
	return func() *tls.Certificate { c := pair.TLS(); return &c }, authority
}

// A conn is a connection that was accepted at an address.
type conn struct {
	net.Conn
	local net.Addr
}

func (c conn) LocalAddr() net.Addr { return c.local }

// TestChoose: the certificate that a client gets by the name that it asks for, or by the address at which
// it comes in.
func TestChoose(t *testing.T) {
	own, _ := ownOf(t)
	i := newIssuer(t)
	main := open(t, i.write(t, "main", "ECDSA", nil, "api.example.com", "localhost", "127.0.0.1", "10.0.0.1", "10.0.0.9", "kubernetes.default.svc"))
	named := []*servingcert.Pair{
		open(t, i.write(t, "first", "RSA", nil, "one.example.com", "*.wild.example.com", "kubernetes.default.svc", "10.0.0.7")),
		open(t, i.write(t, "second", "Ed25519", nil, "ignored.example.com"), "one.example.com", "*.second.example.com", "10.0.0.8", "::1", "fe80::1"),
		open(t, i.write(t, "third.example.com", "ECDSA", nil, "one.example.com", "x.wild.example.com")),
		open(t, i.write(t, "fourth", "ECDSA", nil, "unused.example.com"), "*.second.example.com", "Upper.example.com", "*"),
	}
	inside := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	for _, test := range []struct {
		asked, at string // the name, or the address without one
		main      bool   // whether there is a default
		want      string
	}{
		{asked: "api.example.com", main: true, want: "main"},
		{asked: "API.example.com.", main: true, want: "main"},
		{asked: "api.example.com", want: "own"},
		{asked: "unknown.example.com", main: true, want: "main"},
		{asked: "one.example.com", main: true, want: "second"},              // a pattern before names of certificates
		{asked: "third.example.com", main: true, want: "third.example.com"}, // a common name is one
		{asked: "x.wild.example.com", main: true, want: "third.example.com"},
		{asked: "y.wild.example.com", main: true, want: "first"},
		{asked: "a.y.wild.example.com", main: true, want: "main"}, // a wildcard is one label
		{asked: "a.second.example.com", main: true, want: "second"},
		{asked: "ignored.example.com", main: true, want: "main"}, // patterns replace names
		{asked: "upper.example.com", main: true, want: "fourth"},
		{asked: "short", main: true, want: "fourth"},
		{asked: "kubernetes.default.svc", main: true, want: "own"},
		{asked: "lb.example.com", main: true, want: "own"},
		{asked: "localhost", main: true, want: "fourth"}, // by the pattern *
		{at: "127.0.0.1:6443", main: true, want: "main"},
		{at: "127.0.0.1:6443", want: "own"},
		{at: "127.0.0.2:6443", main: true, want: "main"}, // neither is valid
		{at: "10.0.0.1:6443", main: true, want: "own"},   // pods come here
		{at: "10.0.0.7:6443", main: true, want: "main"},  // addresses in named certificates do not count
		{at: "10.0.0.8:6443", main: true, want: "second"},
		{at: "[::ffff:10.0.0.8]:6443", main: true, want: "second"},
		{at: "[::1]:6443", main: true, want: "second"},
		{at: "[fe80::1%lo]:6443", main: true, want: "second"},
		{at: "10.0.0.9:6443", main: true, want: "main"},
	} {
		set := servingcert.Set{Named: named, Inside: inside}
		if test.main {
			set.Default = main
		}
		hello := &tls.ClientHelloInfo{ServerName: test.asked}
		if test.at != "" {
			hello.Conn = conn{local: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(test.at))}
		}
		got, err := set.Choose(own)(hello)
		if err != nil || got.Leaf.Subject.CommonName != test.want {
			t.Errorf("asked for %q at %q, default %v: %v %v, want %s", test.asked, test.at, test.main, got.Leaf.Subject.CommonName, err, test.want)
		}
	}
	// Without a set, the server's own is for everything.
	got, err := new(servingcert.Set).Choose(own)(&tls.ClientHelloInfo{ServerName: "api.example.com"})
	if err != nil || got.Leaf.Subject.CommonName != "own" {
		t.Errorf("without certificates: %v %v, want own", got.Leaf.Subject.CommonName, err)
	}
}

// TestCheck: a pattern does not take a name or an address from the clients inside the cluster.
func TestCheck(t *testing.T) {
	own, _ := ownOf(t)
	i := newIssuer(t)
	f := i.write(t, "tls", "ECDSA", nil, "kubernetes.default.svc")
	for _, test := range []struct{ pattern, want string }{
		{"api.example.com", ""}, {"localhost", ""}, {"10.0.0.2", ""}, {"127.0.0.1", ""},
		{"kubernetes.default.svc", "the pattern kubernetes.default.svc"}, {"10.0.0.1", "the pattern 10.0.0.1"}, {"lb.example.com", "the pattern lb.example.com"},
	} {
		set := servingcert.Set{Named: []*servingcert.Pair{open(t, f, test.pattern)}, Inside: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
		if err := set.Check(own().Leaf); err == nil && test.want != "" || err != nil && (test.want == "" || !strings.Contains(err.Error(), f.Cert) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("the pattern %s: %v, want %q and the file", test.pattern, err, test.want)
		}
	}
}

// serve answers every connection with its first byte until the test ends, and returns its address.
func serve(t *testing.T, config *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return listener.Addr().String()
}

// echo reports whether a connection works.
func echo(c net.Conn) error {
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// TestHandshakes: keys of every kind serve clients of TLS 1.2 and 1.3 over TCP, by name and by address.
func TestHandshakes(t *testing.T) {
	own, authority := ownOf(t)
	for _, kind := range []string{"ECDSA", "RSA", "Ed25519"} {
		i := newIssuer(t)
		set := servingcert.Set{Default: open(t, i.write(t, "tls", kind, nil, "api.example.com", "127.0.0.1"))}
		address := serve(t, &tls.Config{GetCertificate: set.Choose(own)})
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for name, roots := range map[string]*x509.CertPool{"api.example.com": i.pool(), "127.0.0.1": i.pool(), "kubernetes.default.svc": authority.Pool()} {
				c, err := tls.Dial("tcp", address, &tls.Config{ServerName: name, RootCAs: roots, MinVersion: version, MaxVersion: version})
				if err != nil {
					t.Errorf("a handshake with the key %s in %s for %s = %v, want nil", kind, tls.VersionName(version), name, err)
					continue
				}
				if err := echo(c); err != nil {
					t.Errorf("a handshake with the key %s in %s for %s = %v, want nil", kind, tls.VersionName(version), name, err)
				}
				c.Close()
			}
		}
	}
}

// TestErrors: what is wrong with files is said with their names.
func TestErrors(t *testing.T) {
	i := newIssuer(t)
	good, other := i.write(t, "good", "RSA", nil, "api.example.com"), i.write(t, "other", "RSA", nil, "api.example.com")
	file := func(name, text string) string {
		path := filepath.Join(i.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	expired := i.write(t, "expired", "ECDSA", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	early := i.write(t, "early", "ECDSA", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })
	body, err := os.ReadFile(good.Key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(body)
	legacy := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: block.Bytes}))
	for _, test := range []struct {
		name  string
		files servingcert.Files
		want  []string
	}{
		{"no key file", servingcert.Files{Cert: good.Cert, Key: filepath.Join(i.dir, "none.key")}, []string{"none.key", "no such file"}},
		{"no certificate file", servingcert.Files{Cert: filepath.Join(i.dir, "none.crt"), Key: good.Key}, []string{"none.crt", "no such file"}},
		{"a directory", servingcert.Files{Cert: i.dir, Key: good.Key}, []string{i.dir, "not a regular file"}},
		{"another key", servingcert.Files{Cert: good.Cert, Key: other.Key}, []string{"good.crt", "other.key", "does not match"}},
		{"expired", expired, []string{"expired.crt", "expired at 20"}},
		{"not valid yet", early, []string{"early.crt", "not valid before 20"}},
		{"no PEM in the certificate", servingcert.Files{Cert: file("text.crt", "hello"), Key: good.Key}, []string{"text.crt", "PEM"}},
		{"no PEM in the key", servingcert.Files{Cert: good.Cert, Key: file("text.key", "hello")}, []string{"text.key", "PEM"}},
		{"a key that is encrypted", servingcert.Files{Cert: good.Cert, Key: file("locked.key", strings.ReplaceAll(string(body), "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"))}, []string{"locked.key", "the key is encrypted"}},
		{"a key that is encrypted in the old way", servingcert.Files{Cert: good.Cert, Key: file("old.key", legacy)}, []string{"old.key", "the key is encrypted"}},
		{"a pattern", servingcert.Files{Cert: good.Cert, Key: good.Key, Patterns: []string{"api.*.com"}}, []string{"good.crt", `"api.*.com"`}},
	} {
		_, asMain := servingcert.OpenFlags(test.files, nil)
		_, asNamed := servingcert.OpenFlags(servingcert.Files{}, []servingcert.Files{good, test.files})
		for flag, err := range map[string]error{"--tls-cert-file, --tls-private-key-file: ": asMain, "--tls-sni-cert-key: ": asNamed} {
			if err == nil || !strings.HasPrefix(err.Error(), flag) {
				t.Errorf("%s: %v, want an error that begins with %s", test.name, err, flag)
				continue
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q in it", test.name, err, want)
				}
			}
			if strings.Contains(err.Error(), "MII") {
				t.Errorf("%s: the error quotes a file: %v", test.name, err)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"a.crt,a.key":                       "{a.crt a.key []}",
		" a.crt , a.key : *.foo.com , foo ": "{a.crt a.key [*.foo.com foo]}",
		"a.crt,a.key:10.0.0.1,::1":          "{a.crt a.key [10.0.0.1 ::1]}",
		"a.crt":                             "", "a.crt,": "", ",a.key": "", "a.crt,a.key,b.key": "", "": "",
		"a.crt,a.key:": "", "a.crt,a.key:foo,,bar": "", "a.crt,a.key:*foo.com": "", "a.crt,a.key:foo bar": "",
	} {
		got, err := servingcert.Parse(text)
		if (err != nil) != (want == "") || want != "" && fmt.Sprint(got) != want {
			t.Errorf("Parse(%q) = %v, %v, want %q", text, got, err, want)
		}
	}
}

// TestAnchors: clients that trust the anchors and the authority verify every certificate of the set.
func TestAnchors(t *testing.T) {
	_, authority := ownOf(t)
	dir := t.TempDir()
	signed, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signed.Serving("tls", "api.example.com"); err != nil {
		t.Fatal(err)
	}
	alone := servingcert.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")} // has no chain
	i := newIssuer(t)
	chain := i.write(t, "tls", "RSA", nil, "api.example.com")
	for _, test := range []struct {
		name    string
		files   []servingcert.Files
		trusted *x509.CertPool
		want    int
	}{
		{"none", nil, authority.Pool(), 0},
		{"of the cluster's authority", []servingcert.Files{alone}, signed.Pool(), 0},
		{"of another authority, without it", []servingcert.Files{alone}, authority.Pool(), 1},
		{"of another authority, with it", []servingcert.Files{chain, chain}, authority.Pool(), 1},
		{"both", []servingcert.Files{alone, chain}, authority.Pool(), 2},
	} {
		var set servingcert.Set
		for _, f := range test.files {
			set.Named = append(set.Named, open(t, f))
		}
		anchors := set.Anchors(test.trusted)
		if got := strings.Count(string(anchors), "BEGIN CERTIFICATE"); got != test.want {
			t.Errorf("%s: %d anchors, want %d", test.name, got, test.want)
		}
		roots := test.trusted.Clone()
		roots.AppendCertsFromPEM(anchors)
		if len(test.files) > 0 && test.files[0].Cert == chain.Cert {
			// The authority is an anchor, so that its next certificate is verified too.
			set.Named = append(set.Named, open(t, i.write(t, "next", "RSA", nil, "api.example.com")))
		}
		for _, p := range set.Named {
			if _, err := p.Certificate().Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "api.example.com"}); err != nil {
				t.Errorf("%s: Verify() by the anchors = %v, want nil", test.name, err)
			}
		}
	}
}
