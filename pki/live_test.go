package pki_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/pki"
)

const day = 24 * time.Hour

// verified returns why a pair does not serve host now.
func verified(a *pki.Authority, pair *pki.Pair, host string) error {
	_, err := pair.Certificate.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: host, CurrentTime: time.Now()})
	return err
}

// TestLiveIsRenewed uses a certificate for three years, in memory and in a directory: it is renewed
// thirty days before its end, and also when no caller looked until it had expired.
func TestLiveIsRenewed(t *testing.T) {
	for name, open := range map[string]func() (*pki.Authority, error){
		"memory":    pki.New,
		"directory": func() (*pki.Authority, error) { return pki.Open(t.TempDir()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			a, err := open()
			if err != nil {
				t.Fatal(err)
			}
			var reports []string
			a.ReportTo(func(name string, _ time.Time, err error) {
				if reports = append(reports, name); err != nil {
					t.Error(err)
				}
			})
			first, err := a.Serving("apiserver", "localhost")
			if err != nil {
				t.Fatal(err)
			}
			live := first.Live()
			for _, step := range []struct {
				wait    time.Duration
				renewed int
			}{
				{0, 0}, {334 * day, 0}, {2 * day, 1}, {time.Hour, 1}, {330 * day, 1}, {6 * day, 2}, {400 * day, 3},
			} {
				time.Sleep(step.wait)
				if err := verified(a, live.Pair(), "localhost"); err != nil || len(reports) != step.renewed {
					t.Errorf("%s: after %v more: %v, renewed %d times, want %d", name, step.wait, err, len(reports), step.renewed)
				}
			}
		})
	}
}

// TestLiveFollowsFiles replaces the files of a certificate in use: by good ones, by torn ones and by ones
// that do not match, and takes the disk away.
func TestLiveFollowsFiles(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a, err := pki.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		var last error
		reports := 0
		a.ReportTo(func(_ string, _ time.Time, err error) { last, reports = err, reports+1 })
		first, err := a.Serving("apiserver", "localhost")
		if err != nil {
			t.Fatal(err)
		}
		copied, err := pki.Open(dir) // another process with the authority
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := pki.New()
		if err != nil {
			t.Fatal(err)
		}
		stranger, err := foreign.Serving("apiserver", "localhost")
		if err != nil {
			t.Fatal(err)
		}
		certificate, key := filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
		remove := func() { os.Remove(certificate); os.Remove(key) }
		put := func(file string, data []byte) {
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		live := first.Live()
		remove()
		second, err := copied.Serving("apiserver", "localhost")
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name   string
			change func()
			want   *pki.Pair
			err    string // of the report; "none" for no report
		}{
			{"a new pair", func() {}, second, ""},
			{"the same pair", func() {}, second, "none"},
			{"a certificate without its key", func() { put(certificate, first.CertificatePEM) }, second, "private key does not match"},
			{"the same again", func() {}, second, "none"},
			{"the key", func() { put(key, first.KeyPEM) }, first, ""},
			{"half a certificate", func() { put(certificate, second.CertificatePEM[:100]) }, first, "failed to find any PEM data"},
			{"an empty key", func() { put(certificate, first.CertificatePEM); put(key, nil) }, first, "not a certificate with its key"},
			{"another authority's", func() { put(certificate, stranger.CertificatePEM); put(key, stranger.KeyPEM) }, first, "is not one that serves"},
			{"none", remove, first, "none"},
		} {
			before := reports
			step.change()
			time.Sleep(10 * time.Second)
			have := live.Pair()
			if !bytes.Equal(have.CertificatePEM, step.want.CertificatePEM) {
				t.Errorf("%s: another certificate is in use than wanted", step.name)
			}
			switch said := reports != before; {
			case said != (step.err != "none"):
				t.Errorf("%s: reported %v, want %q", step.name, said, step.err)
			case said && (last == nil) != (step.err == ""), said && last != nil && !strings.Contains(last.Error(), step.err):
				t.Errorf("%s: reported %v, want %q", step.name, last, step.err)
			}
		}
		// A directory that cannot be written to costs no connection.
		if err := errors.Join(os.Mkdir(certificate, 0o700), os.Mkdir(filepath.Join(certificate, "x"), 0o700)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(340 * day)
		if err := verified(a, live.Pair(), "localhost"); err != nil || last == nil {
			t.Errorf("without a directory: %v, reported %v", err, last)
		}
	})
}

// pipes is a network within the process, as far as one listener needs it.
type pipes chan net.Conn

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p <- far
	return near, nil
}

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// TestLiveKeepsConnections: an established connection goes on while a new handshake gets the renewed
// certificate, of the server and of the client, before the end of the first ones and long after it.
func TestLiveKeepsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := pki.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		serving, err1 := a.Serving("server", "127.0.0.1")
		client, err2 := a.Client("client", "jane")
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		network := make(pipes)
		server := &http.Server{
			TLSConfig: &tls.Config{GetCertificate: serving.Live().Certificate, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool()},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Write(r.TLS.PeerCertificates[0].SerialNumber.Bytes())
			}),
		}
		served := make(chan error, 1)
		go func() { served <- server.ServeTLS(network, "", "") }()
		newTransport := func() *http.Transport {
			return &http.Transport{DialContext: network.dial, TLSClientConfig: &tls.Config{RootCAs: a.Pool(), GetClientCertificate: client.Live().ClientCertificate}}
		}
		old := newTransport() // with one connection, which is kept
		before := ends(t, old)
		for range 3 {
			time.Sleep(340 * day)
			fresh := newTransport()
			if now := ends(t, fresh); now[0] == before[0] || now[1] == before[1] {
				t.Errorf("a new connection has the certificates %x, want others than %x", now, before)
			}
			fresh.CloseIdleConnections()
			if now := ends(t, old); now != before {
				t.Errorf("the old connection has the certificates %x, want %x", now, before)
			}
		}
		old.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// ends sends a request and returns the serial numbers of the certificates of the server and the client.
func ends(t *testing.T, transport *http.Transport) [2]string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return [2]string{string(answer.TLS.PeerCertificates[0].SerialNumber.Bytes()), string(body)}
}

// TestTornPair: what a power cut leaves of a certificate between two writes is made again at the next
// start.
func TestTornPair(t *testing.T) {
	for name, tear := range map[string]func(certificate, key string) error{
		"no certificate":   func(certificate, _ string) error { return os.Remove(certificate) },
		"empty":            func(certificate, _ string) error { return os.Truncate(certificate, 0) },
		"half":             func(_, key string) error { return os.Truncate(key, 40) },
		"the key is newer": func(_, key string) error { return os.Rename(filepath.Join(filepath.Dir(key), "other.key"), key) },
	} {
		dir := t.TempDir()
		a, err := pki.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err1 := a.Serving("apiserver", "localhost")
		_, err2 := a.Serving("other", "localhost")
		if err := errors.Join(err1, err2, tear(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key"))); err != nil {
			t.Fatal(err)
		}
		pair, err := a.Serving("apiserver", "localhost")
		if err == nil {
			err = verified(a, pair, "localhost")
		}
		if err != nil {
			t.Errorf("%s: Serving(apiserver) over torn files: %v, want a pair that is verified for localhost", name, err)
		}
		if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")); err != nil {
			t.Errorf("%s: the files are %v", name, err)
		}
	}
}

// TestAuthorityIsRenewed: an authority that ends soon or has ended, or was made while the clock was ahead,
// keeps its key. What it signed stays valid, and its public key has the same hash.
func TestAuthorityIsRenewed(t *testing.T) {
	dir := t.TempDir()
	future, err := pki.Open(dir) // for the bubble, whose clock is behind
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a, err := pki.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !a.Key.Equal(future.Key) || time.Now().Before(a.Certificate.NotBefore) {
			t.Errorf("the authority is valid from %v on and has the same key: %v", a.Certificate.NotBefore, a.Key.Equal(future.Key))
		}
		time.Sleep(3650*day - 20*day)
		leaf, err := a.Client("admin", "jane")
		if err != nil {
			t.Fatal(err)
		}
		renewed, err := pki.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !renewed.Key.Equal(a.Key) || !renewed.Certificate.NotAfter.After(a.Certificate.NotAfter.Add(9*365*day)) {
			t.Errorf("the renewed authority ends %v and has the same key: %v", renewed.Certificate.NotAfter, renewed.Key.Equal(a.Key))
		}
		if err := leaf.Certificate.CheckSignatureFrom(renewed.Certificate); err != nil {
			t.Error(err)
		}
		kept, err := renewed.Client("admin", "jane")
		if err != nil || !bytes.Equal(kept.CertificatePEM, leaf.CertificatePEM) {
			t.Errorf("the certificate of the administrator changed: %v", err)
		}
	})
	// The files of the bubble are of a time that is long past outside.
	if a, err := pki.Open(dir); err != nil || time.Now().Add(365*day).After(a.Certificate.NotAfter) {
		t.Errorf("the authority has expired: %v", err)
	}
}
