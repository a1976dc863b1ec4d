package apiserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/planekit/planekit/storage/storagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns the client's end of a new connection.
func (l *pipes) dial() *gated {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return &gated{Conn: ours, open: make(chan struct{})}
}

// gated is a connection whose reader stands still after it has read limit bytes, zero being all, until
// open is closed.
type gated struct {
	net.Conn
	open chan struct{}

	mu          sync.Mutex // guards the fields below
	limit, read int
}

func (g *gated) stopAfter(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit, g.read = bytes, 0
}

func (g *gated) Read(p []byte) (int, error) {
	g.mu.Lock()
	limit, left := g.limit, g.limit-g.read
	g.mu.Unlock()
	if limit > 0 && left <= 0 {
		<-g.open
	} else if limit > 0 {
		p = p[:min(len(p), left)]
	}
	n, err := g.Conn.Read(p)
	g.mu.Lock()
	g.read += n
	g.mu.Unlock()
	return n, err
}

// overTLS runs a server behind pipes, in a bubble, and calls check with a client of the given protocol
// whose first connection is g.
func overTLS(t *testing.T, protocol string, change func(*apiserver.Config), check func(t *testing.T, a *api, g *gated)) {
	synctest.Test(t, func(t *testing.T) {
		certificate := selfSigned(t)
		listener := newPipes()
		s, _ := inMemory(t, func(c *apiserver.Config) {
			c.Listener, c.TLS = listener, &tls.Config{Certificates: []tls.Certificate{certificate}}
			if change != nil {
				change(c)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		roots := x509.NewCertPool()
		roots.AddCert(certificate.Leaf)
		g := listener.dial()
		first := make(chan *gated, 1)
		first <- g
		transport := &http.Transport{
			ForceAttemptHTTP2: protocol == "h2", DisableCompression: true,
			HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				raw := net.Conn(nil)
				select {
				case raw = <-first:
				default:
					raw = listener.dial()
				}
				conn := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: "apiserver", NextProtos: []string{protocol}})
				return conn, conn.HandshakeContext(ctx)
			},
		}
		defer func() {
			_ = g.Close()
			transport.CloseIdleConnections()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		check(t, &api{t, &http.Client{Transport: transport}, "https://apiserver"}, g)
	})
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"apiserver"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// fill creates config maps whose list has several hundred kilobytes.
func (a *api) fill() {
	a.t.Helper()
	random := mathrand.New(mathrand.NewPCG(1, 2)) // does not compress well
	for _, name := range []string{"a", "b", "c", "d"} {
		text := make([]byte, 200<<10)
		for i := range text {
			text[i] = byte('a' + random.IntN(26))
		}
		a.create(configPath, configMap(name, `,"data":{"k":"`+string(text)+`"}`))
	}
}

// get begins a GET.
func (a *api) get(path string, headers ...string) *http.Response {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.base+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	response, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	return response
}

// TestCutResponseIsNoBrokenRecord: a response that its deadline cuts off ends for an HTTP/1 client, which
// reads on a moment later, with the end of the connection. It is no broken TLS record and no end of the body.
func TestCutResponseIsNoBrokenRecord(t *testing.T) {
	for _, c := range []struct {
		name, path, header string
		deadline           time.Duration
	}{
		{"length", configPath, "Accept: application/json", 61 * time.Second},
		{"chunked", configPath, "Accept-Encoding: gzip", 61 * time.Second},
		{"watch", configPath + "?watch=true", "Accept: application/json", 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			overTLS(t, "http/1.1", nil, func(t *testing.T, a *api, g *gated) {
				a.fill()
				g.stopAfter(20_000) // within the second record of a response
				response := a.get(c.path, c.header)
				defer response.Body.Close()
				time.Sleep(c.deadline + time.Second)
				close(g.open)
				_, err := io.Copy(io.Discard, response.Body)
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("the body of %s, cut off, ended with %v, want %v", c.path, err, io.ErrUnexpectedEOF)
				}
			})
		})
	}
}

// TestCutStreamLeavesOthers: over HTTP/2 only the stream of a client that does not read is reset; a watch and
// later requests on the connection go on.
func TestCutStreamLeavesOthers(t *testing.T) {
	overTLS(t, "h2", nil, func(t *testing.T, a *api, _ *gated) {
		a.fill()
		list := into[corev1.ConfigMapList](t, a.do("GET", configPath+"?limit=1", ""))
		watch := a.get(configPath + "?watch=true&resourceVersion=" + list.ResourceVersion)
		defer watch.Body.Close()
		slow := a.get(configPath)
		defer slow.Body.Close()
		time.Sleep(3 * time.Minute)
		_, err := io.Copy(io.Discard, slow.Body)
		if err == nil || !strings.Contains(err.Error(), "INTERNAL_ERROR") {
			t.Errorf("the list that was not read ended with %v, want a reset stream", err)
		}
		a.create(configPath, configMap("new", ""))
		seen := make([]byte, 0, 8<<20)
		for !strings.Contains(string(seen), `"name":"new"`) {
			piece := make([]byte, 64<<10)
			n, err := watch.Body.Read(piece)
			if seen = append(seen, piece[:n]...); err != nil {
				t.Fatalf("the watch beside the list that was cut off ended with %v", err)
			}
		}
	})
}

// TestLateAnswers: a request that is not done in time is answered with a Status, and a result that is late all
// the same is sent whole.
func TestLateAnswers(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			slow := configMaps()
			slow.Columns = []apiserver.Column{{Name: "Slow", Type: "string", Value: func(runtime.Object) any {
				time.Sleep(2 * time.Minute)
				return strings.Repeat("x", 100<<10)
			}}}
			lag := &switched{memstore.New()}
			overTLS(t, protocol, func(c *apiserver.Config) {
				c.Resources, c.Store = []apiserver.Resource{slow}, lag
			}, func(t *testing.T, a *api, _ *gated) {
				a.fill()
				const table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
				if got := a.do("GET", configPath+"/a", "", table); got.code != http.StatusOK || len(into[metav1.Table](t, got).Rows) != 1 {
					t.Errorf("a row that took two minutes = %d %.200s, want 200 and 1 row", got.code, got.body)
				}
				if got := a.do("GET", configPath, "", table); got.code != http.StatusGatewayTimeout {
					t.Errorf("a table whose first row took two minutes = %d %.200s, want 504", got.code, got.body)
				}
				lag.Store = storagetest.Lag(lag.Store, 2*time.Minute)
				for _, r := range []struct{ method, path, body string }{
					{"GET", configPath + "/a", ""}, {"GET", configPath, ""}, {"POST", configPath, configMap("late", "")}, {"DELETE", configPath + "/a", ""},
				} {
					got := a.do(r.method, r.path, r.body)
					if status := into[metav1.Status](t, got); got.code != http.StatusGatewayTimeout || status.Reason != metav1.StatusReasonTimeout {
						t.Errorf("%s %s in a slow store = %d %.200s, want 504 Timeout", r.method, r.path, got.code, got.body)
					}
				}
			})
		})
	}
}

// TestUnreadConnectionEnds: a client that does not read its connection at all does not keep its requests.
func TestUnreadConnectionEnds(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			var ended chan apiserver.RequestSummary
			overTLS(t, protocol, func(c *apiserver.Config) {
				ended = make(chan apiserver.RequestSummary, 100)
				c.Hooks.Ended = func(r apiserver.RequestSummary) { ended <- r }
			}, func(t *testing.T, a *api, g *gated) {
				a.fill()
				for len(ended) > 0 {
					<-ended
				}
				began := time.Now()
				g.stopAfter(1000)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+configPath, nil)
				if err != nil {
					t.Fatal(err)
				}
				var client sync.WaitGroup
				client.Go(func() {
					if response, err := a.client.Do(r); err == nil {
						_, _ = io.Copy(io.Discard, response.Body)
						response.Body.Close()
					}
				})
				select {
				case <-ended:
				case <-time.After(time.Hour):
				}
				if took := time.Since(began); took > 3*time.Minute {
					t.Errorf("the request of a client that does not read ended after %v, want at most 3m", took)
				}
				cancel()
				close(g.open)
				client.Wait()
			})
		})
	}
}
