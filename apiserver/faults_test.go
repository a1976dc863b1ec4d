package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/storage"
	corev1 "k8s.io/api/core/v1"
)

const yamlBody = "Content-Type: application/yaml"

// bomb is a document of a kilobyte that would be one of many gigabytes.
func bomb() string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx0: &x0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "x%d: &x%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d,", i), 9), ","))
	}
	return b.String()
}

func nested(n int) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
}

// TestBadBodies sends what no client should. Every answer comes within a second,
// and the server goes on.
func TestBadBodies(t *testing.T) {
	a := start(t)
	large := configMap("a", `,"data":{"k":"`+strings.Repeat("x", 3<<20)+`"}`)
	for _, c := range []struct {
		name, method, path, body, header string
		code                             int
		text                             string
	}{
		{"truncated", "POST", configPath, `{"apiVersion":"v1","kind":"Con`, "", 400, ""},
		{"empty", "POST", configPath, "", "", 400, ""},
		{"unknown field, strict", "POST", configPath + "?fieldValidation=Strict", configMap("a", `,"dato":{}`), "", 400, `unknown field "dato"`},
		{"duplicate field, strict", "POST", configPath + "?fieldValidation=Strict", configMap("a", `,"data":{},"data":{}`), "", 400, `duplicate field "data"`},
		{"unknown validation", "POST", configPath + "?fieldValidation=Maybe", configMap("a", ""), "", 422, "fieldValidation"},
		{"too large", "POST", configPath, large, "", 413, "limit is 3145728"},
		{"too large, PUT", "PUT", configPath + "/a", large, "", 413, ""},
		{"too large, PATCH", "PATCH", configPath + "/a", large, mergePatch, 413, ""},
		{"too large, apply", "PATCH", configPath + "/a?fieldManager=m", large, applyPatch, 413, ""},
		{"too large, DELETE", "DELETE", configPath + "/a", large, "", 413, ""},
		{"wrong type", "POST", configPath, configMap("a", ""), "Content-Type: text/plain", 415, "application/json"},
		{"broken type", "POST", configPath, configMap("a", ""), "Content-Type: ;;;", 415, ""},
		{"YAML bomb", "POST", configPath, bomb(), yamlBody, 400, ""},
		{"YAML bomb, apply", "PATCH", configPath + "/a?fieldManager=m", bomb(), applyPatch, 400, ""},
		{"nesting", "POST", configPath, nested(10_001), "", 400, ""},
		{"nesting, YAML", "POST", configPath, nested(10_001), yamlBody, 400, ""},
		{"nesting, apply", "PATCH", configPath + "/a?fieldManager=m", nested(10_001), applyPatch, 400, ""},
		{"nesting, merge patch", "PATCH", configPath + "/web", `{"data":` + nested(10_001) + `}`, mergePatch, 400, ""},
		{"nesting, options", "DELETE", configPath + "/web", `{"kind":"DeleteOptions","apiVersion":"v1","x":` + nested(10_001) + `}`, "", 400, ""},
		{"invalid UTF-8", "POST", configPath, configMap("a", ",\"data\":{\"k\":\"\xff\xfe\"}"), "", 400, "UTF-8"},
		{"invalid UTF-8, apply", "PATCH", configPath + "/a?fieldManager=m", configMap("a", ",\"data\":{\"k\":\"\xff\xfe\"}"), applyPatch, 400, "UTF-8"},
		{"other kind", "POST", configPath, pod("a", ""), "", 400, "cannot be handled as a ConfigMap"},
		{"other name", "PUT", configPath + "/web", configMap("other", ""), "", 400, "does not match the name on the URL"},
		{"name too long", "POST", configPath, configMap(strings.Repeat("a", 254), ""), "", 422, "must be no more than 253"},
		{"name at the limit", "POST", configPath, configMap(strings.Repeat("a", 253), ""), "", 201, ""},
		{"name with a slash", "POST", configPath, configMap("a/b", ""), "", 422, ""},
		{"revision not a number", "PUT", configPath + "/web", strings.Replace(configMap("web", ""), `"name"`, `"resourceVersion":"x","name"`, 1), "", 400, ""},
		{"other UID", "DELETE", configPath + "/web", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"x"}}`, "", 409, "The object might have been deleted and then recreated"},
		{"not protobuf", "POST", configPath, "k8s\x00garbage", "Content-Type: " + protoMedia, 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &api{t, a.client, a.base}
			a.do("POST", configPath, configMap("web", ""))
			var headers []string
			if c.header != "" {
				headers = append(headers, c.header)
			}
			bounded(t, time.Second, func() { a.want(a.do(c.method, c.path, c.body, headers...), c.code, c.text) })
		})
	}
	a.want(a.do("GET", configPath, ""), 200, "")
}

func TestBadQueries(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("web", ""))
	terms := func(n int, term string) string { return strings.TrimSuffix(strings.Repeat(term+",", n), ",") }
	for _, c := range []struct {
		name, query string
		code        int
	}{
		{"forged continue", "?limit=1&continue=Zm9yZ2Vk", 400},
		{"continue that is no base64", "?limit=1&continue=%00%ff", 400},
		{"selector", "?labelSelector=a%20in%20(", 400},
		{"field selector", "?fieldSelector=metadata.name", 400},
		{"unknown field", "?fieldSelector=data.k=v", 400},
		{"revision not a number", "?resourceVersion=x", 400},
		{"negative revision", "?resourceVersion=-1", 400},
		{"many terms", "?labelSelector=" + terms(100_000, "a"), 0},
		{"many fields", "?fieldSelector=" + terms(100_000, "metadata.name=web"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &api{t, a.client, a.base}
			bounded(t, 2*time.Second, func() {
				got := a.do("GET", configPath+c.query, "")
				if c.code == 0 && got.code >= 500 || c.code != 0 && got.code != c.code {
					t.Errorf("%d %.200s, want %d", got.code, got.body, c.code)
				}
			})
		})
	}
}

// counting counts what the store is asked for.
type counting struct {
	storage.Store
	reads atomic.Int64
}

func (c *counting) Get(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
	c.reads.Add(1)
	return c.Store.Get(ctx, key, at)
}

func (c *counting) List(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
	c.reads.Add(1)
	return c.Store.List(ctx, prefix, o)
}

func TestConfusingPathsNeverReachTheStore(t *testing.T) {
	var store *counting
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...), apiservertest.WithConfig(func(c *apiserver.Config) {
		store = &counting{Store: c.Store}
		c.Store = store
	}))
	before := store.reads.Load()
	for _, name := range []string{".", "..", "%2e", "%2e%2e", "a%2fb", "a%2Fb", "%2f", "a%5cb", "a%00b", "a%0ab", "%25", "%ff"} {
		for _, path := range []string{configPath + "/" + name, "/api/v1/namespaces/" + name + "/configmaps/a", configPath + "/a/" + name} {
			r := httptest.NewRequest(http.MethodGet, "https://host"+path, nil)
			r.Header.Set("Authorization", "Bearer "+s.Token)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != http.StatusBadRequest {
				t.Errorf("GET %s = %d, want 400", path, w.Code)
			}
		}
	}
	if n := store.reads.Load() - before; n != 0 {
		t.Errorf("the store was read %d times", n)
	}
}

func TestUnknownFinalizerIsKept(t *testing.T) {
	a := start(t)
	a.create(configPath, strings.Replace(configMap("web", ""), `"name"`, `"finalizers":["example.com/unheard-of"],"name"`, 1))
	a.want(a.do("DELETE", configPath+"/web", ""), 200, "")
	got := into[corev1.ConfigMap](t, a.want(a.do("GET", configPath+"/web", ""), 200, ""))
	if len(got.Finalizers) != 1 || got.DeletionTimestamp == nil {
		t.Errorf("the metadata after the DELETE is %+v, want one finalizer and a deletionTimestamp", got.ObjectMeta)
	}
	a.want(a.do("PATCH", configPath+"/web", `{"metadata":{"finalizers":null}}`, mergePatch), 200, "")
	a.want(a.do("GET", configPath+"/web", ""), 404, "")
}

// TestSlowLorisIsCut sends headers and stops. The server's clock is its own, so
// the limit is looked at rather than waited for.
func TestSlowLorisIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		listener := &one{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
		listener.conns <- theirs
		s, _ := inMemory(t, func(c *apiserver.Config) { c.Listener, c.InsecurePlainHTTP = listener, true })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		began := time.Now()
		if _, err := io.WriteString(ours, "GET /version HTTP/1.1\r\nHost: a\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, ours); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("cut after %v", took)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestSlowBodyIsCut sends a part of a body and stops, for a request that wants
// the body and for one that does not.
func TestSlowBodyIsCut(t *testing.T) {
	for _, c := range []struct {
		request string
		trickle bool
	}{
		{"POST " + configPath, false}, {"POST /nothing", false}, {"PUT " + configPath + "/web", false}, {"PATCH " + configPath + "/web", false},
		{"DELETE " + configPath + "/web", false}, {"DELETE " + configPath, false}, {"POST " + configPath, true}, {"PATCH " + configPath + "/web", true},
	} {
		t.Run(fmt.Sprintf("%s trickle=%v", c.request, c.trickle), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { slowBody(t, c.request, c.trickle) })
		})
	}
}

// slowBody sends a part of a body, and no more or a byte every five seconds.
func slowBody(t *testing.T, request string, trickle bool) {
	media := "application/json"
	if strings.HasPrefix(request, "PATCH") {
		media = "application/merge-patch+json"
	}
	ours, theirs := net.Pipe()
	listener := &one{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	listener.conns <- theirs
	s, _ := inMemory(t, func(c *apiserver.Config) { c.Listener, c.InsecurePlainHTTP = listener, true })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	began := time.Now()
	if _, err := io.WriteString(ours, request+" HTTP/1.1\r\nHost: a\r\nContent-Type: "+media+"\r\nContent-Length: 1000\r\n\r\n{\"a"); err != nil {
		t.Fatal(err)
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for trickle {
			time.Sleep(5 * time.Second)
			if _, err := io.WriteString(ours, " "); err != nil {
				return
			}
		}
	})
	text, err := io.ReadAll(ours)
	if err != nil {
		t.Fatal(err)
	}
	ours.Close()
	writer.Wait()
	if took := time.Since(began); !strings.HasPrefix(string(text), "HTTP/1.1 40") || took > time.Minute {
		t.Errorf("%q after %v", text, took)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// one is a listener of one connection.
type one struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *one) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *one) Addr() net.Addr { return &net.TCPAddr{} }

// TestStreamsOfAConnectionAreCapped reads what the server allows a connection,
// which net/http holds clients to (RFC 9113, section 6.5.2).
func TestStreamsOfAConnectionAreCapped(t *testing.T) {
	const settings, maxConcurrentStreams = 4, 3
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...))
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 9)
	if _, err := io.ReadFull(conn, frame); err != nil || frame[3] != settings {
		t.Fatalf("%v, frame %v", err, frame)
	}
	payload := make([]byte, int(frame[0])<<16|int(frame[1])<<8|int(frame[2]))
	if _, err := io.ReadFull(conn, payload); err != nil {
		t.Fatal(err)
	}
	for ; len(payload) >= 6; payload = payload[6:] {
		if binary.BigEndian.Uint16(payload) == maxConcurrentStreams {
			if n := binary.BigEndian.Uint32(payload[2:]); n != 250 {
				t.Errorf("%d streams", n)
			}
			return
		}
	}
	t.Error("no limit")
}

// recording remembers what is written.
type recording struct {
	storage.Store
	written bytes.Buffer
}

func (r *recording) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	r.written.Write(c.Value)
	return r.Store.Commit(ctx, c)
}

func (r *recording) has(text string) bool { return strings.Contains(r.written.String(), text) }
