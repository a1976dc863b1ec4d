package servingcert_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/pki/servingcert"
)

// TestFollow: replaced files serve new connections within seconds, and open connections stay. Files that
// are wrong change nothing and are reported once.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, _ := ownOf(t)
		i := newIssuer(t)
		f := i.write(t, "tls", "RSA", nil, "api.example.com")
		set := servingcert.Set{Default: open(t, f)}
		var reports []string
		set.ReportTo(func(name string, _ time.Time, err error) {
			reports = append(reports, fmt.Sprint(filepath.Base(name), " ", err != nil))
		})
		config := &tls.Config{GetCertificate: set.Choose(own)}
		dial := func() (*tls.Conn, string) {
			client, err := i.dial(config)
			if err != nil {
				t.Fatalf("a handshake = %v, want nil", err)
			}
			t.Cleanup(func() { client.NetConn().Close() })
			return client, client.ConnectionState().PeerCertificates[0].SerialNumber.String()
		}
		first, serial := dial()
		for _, step := range []struct {
			name    string
			change  func()
			changes bool
			reports []string
		}{
			{"nothing", func() {}, false, nil},
			{"another pair, with a key of another kind", func() { i.write(t, "tls", "Ed25519", nil, "api.example.com") }, true, []string{"tls.crt false"}},
			{"no key", func() { os.Remove(f.Key) }, false, []string{"tls.crt true"}},
			{"a pair that has expired", func() {
				i.write(t, "tls", "ECDSA", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, "api.example.com")
			}, false, []string{"tls.crt true"}},
			{"a pair", func() { i.write(t, "tls", "ECDSA", nil, "api.example.com") }, true, []string{"tls.crt false"}},
		} {
			step.change()
			reports = nil
			before := serial
			for range 2 {
				time.Sleep(6 * time.Second)
				if _, serial = dial(); (serial != before) != step.changes {
					t.Errorf("%s: the serial number is %s after %s, want a change: %v", step.name, serial, before, step.changes)
				}
			}
			if fmt.Sprint(reports) != fmt.Sprint(step.reports) {
				t.Errorf("%s: reports %q, want %q", step.name, reports, step.reports)
			}
			if err := echo(first); err != nil {
				t.Errorf("%s: the first connection: %v", step.name, err)
			}
		}
	})
}

// TestReplacedUnderLoad: no handshake fails while files are replaced, the certificate before the key, as a
// program that renews them does.
func TestReplacedUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, _ := ownOf(t)
		i := newIssuer(t)
		f := i.write(t, "tls", "ECDSA", nil, "api.example.com")
		set := servingcert.Set{Default: open(t, f)}
		config := &tls.Config{GetCertificate: set.Choose(own)}
		served := make([]map[string]bool, 8)
		var clients sync.WaitGroup
		for n := range served {
			served[n] = map[string]bool{}
			clients.Go(func() {
				for range 60 {
					client, err := i.dial(config)
					if err != nil {
						t.Errorf("a handshake while files are replaced = %v, want nil", err)
						return
					}
					served[n][client.ConnectionState().PeerCertificates[0].SerialNumber.String()] = true
					if err := echo(client); err != nil {
						t.Error(err)
					}
					client.NetConn().Close()
					time.Sleep(time.Second)
				}
			})
		}
		for range 6 {
			time.Sleep(9 * time.Second)
			next := i.write(t, "next", "ECDSA", nil, "api.example.com")
			if err := os.Rename(next.Cert, f.Cert); err != nil {
				t.Fatal(err)
			}
			time.Sleep(6 * time.Second) // the pair does not match in the meantime
			if err := os.Rename(next.Key, f.Key); err != nil {
				t.Fatal(err)
			}
		}
		clients.Wait()
		for n, serials := range served {
			if len(serials) < 3 {
				t.Errorf("client %d saw %d certificates, want those of several renewals", n, len(serials))
			}
		}
	})
}

// dial connects with a server that has config and returns what it is sent.
func (i *issuer) dial(config *tls.Config) (*tls.Conn, error) {
	near, far := net.Pipe()
	server := tls.Server(far, config)
	go func() {
		defer far.Close()
		_, _ = io.Copy(server, server)
	}()
	client := tls.Client(near, &tls.Config{ServerName: "api.example.com", RootCAs: i.pool()})
	if err := client.Handshake(); err != nil {
		near.Close()
		return nil, err
	}
	return client, nil
}
