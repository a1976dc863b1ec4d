package apiserver_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// identified is a configuration of levels and schemas that objects of the API configure.
func identified(t *testing.T) *flowcontrol.Controller {
	config := flowcontrol.Default(600)
	for i := range config.Levels {
		config.Levels[i].UID = "level-" + config.Levels[i].Name
	}
	for i := range config.Schemas {
		config.Schemas[i].UID = "schema-" + config.Schemas[i].Name
	}
	c, err := flowcontrol.NewController(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every answer names the schema and the level by their UIDs, and the hook by their names.
func TestFlowIsTold(t *testing.T) {
	var mu sync.Mutex
	var last apiserver.FlowSummary
	s, _ := inMemory(t, func(c *apiserver.Config) {
		c.FlowControl = identified(t)
		c.Hooks.Ended = func(s apiserver.RequestSummary) {
			mu.Lock()
			defer mu.Unlock()
			last = s.Flow
		}
	})
	for _, test := range []struct {
		user          user.Info
		path          string
		schema, level string
	}{
		{user.Info{Name: "jane"}, configPath, "global-default", "global-default"},
		{user.Info{Name: user.Anonymous}, configPath, "catch-all", "catch-all"},
		{user.Info{Name: "root", Groups: []string{user.Masters}}, configPath, "exempt", "exempt"},
		{user.Info{Name: "system:node:a", Groups: []string{"system:nodes", user.Authenticated}}, configPath, "system-nodes", "system"},
		{user.Info{Name: "jane"}, "/readyz", "probes", "exempt"},
		{user.Info{Name: "jane"}, "/api/v1/namespaces/default/nothing", "global-default", "global-default"},
	} {
		a := &api{t, &http.Client{Transport: s.Transport(&test.user)}, "http://local"}
		got := a.do("GET", test.path, "")
		if schema, level := got.header.Get("X-Kubernetes-PF-FlowSchema-UID"), got.header.Get("X-Kubernetes-PF-PriorityLevel-UID"); schema != "schema-"+test.schema || level != "level-"+test.level {
			t.Errorf("%s of %s: schema %q, level %q", test.path, test.user.Name, schema, level)
		}
		mu.Lock()
		if last.Schema != test.schema || last.Level != test.level || last.Rejected || last.Executed <= 0 || last.Seats != 1 {
			t.Errorf("%s of %s: told is %+v", test.path, test.user.Name, last)
		}
		mu.Unlock()
	}
}

// A list takes a seat for each hundred objects that it looks at, and a watch that begins with
// the objects does so until they are sent.
func TestListsAreWide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		control := identified(t)
		var mu sync.Mutex
		seats := 0
		s, a := inMemory(t, func(c *apiserver.Config) {
			c.FlowControl = control
			c.Hooks.Ended = func(s apiserver.RequestSummary) {
				mu.Lock()
				defer mu.Unlock()
				seats = s.Flow.Seats
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go s.Run(ctx)
		for i := range 250 {
			a.create(configPath, configMap(fmt.Sprint("c", i), ""))
		}
		synctest.Wait()
		a.do("GET", configPath, "") // the first list fills the cache
		for query, want := range map[string]int{
			"":                                  3,
			"?resourceVersion=0":                3,
			"?limit=100":                        1,
			"?limit=101":                        2,
			"?limit=1&labelSelector=a%3Db":      3,
			"?fieldSelector=metadata.name%3Dc1": 1,
			"?watch=true&timeoutSeconds=1":      3,
			"?watch=true&timeoutSeconds=1&resourceVersion=20":  1,
			"?watch=true&timeoutSeconds=1&resourceVersion=bad": 1,
			"?limit=bad": 1,
		} {
			a.do("GET", configPath+query, "")
			synctest.Wait()
			mu.Lock()
			if seats != want {
				t.Errorf("%q takes %d seats, want %d", query, seats, want)
			}
			mu.Unlock()
		}
		if got := a.do("GET", "/api/v1/namespaces/empty/configmaps", ""); got.code != 200 || seats != 1 {
			t.Errorf("a list of nothing takes %d seats", seats)
		}
		stream := a.watch(configPath + "?watch=true")
		for range 250 {
			stream.next()
		}
		synctest.Wait()
		for _, level := range control.Levels() {
			if level.Executing != 0 || level.SeatsInUse != 0 {
				t.Errorf("while a watch goes on: %+v", level)
			}
		}
	})
}

// A request that waits too long, or whose client has gone, keeps no seat.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		control := oneSeat(t, 5)
		block := make(chan struct{})
		s, a := inMemory(t, func(c *apiserver.Config) {
			c.FlowControl = control
			c.Admission = admit{mutate: func(context.Context, *admission.Request) error { <-block; return nil }}
		})
		var all sync.WaitGroup
		all.Go(func() { a.create(configPath, configMap("a", "")) })
		synctest.Wait()
		began := time.Now()
		if got := a.do("GET", configPath, ""); got.code != 429 || time.Since(began) != 15*time.Second {
			t.Errorf("%d after %v", got.code, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://local"+configPath, nil)
			if response, err := s.Transport(&user.Info{Name: "jane"}).RoundTrip(r); err == nil {
				_ = response.Body.Close()
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(block)
		all.Wait()
		synctest.Wait()
		a.want(a.do("GET", configPath, ""), 200, "")
		for _, l := range control.Levels() {
			if l.Executing+l.Waiting+l.SeatsInUse != 0 {
				t.Errorf("at the end: %+v", l)
			}
		}
		for _, s := range control.Schemas() {
			if s.Schema == flowcontrol.CatchAllName && (s.TimedOut != 1 || s.Cancelled != 1) {
				t.Errorf("counted are %+v", s)
			}
		}
	})
}

// A client that does not read its answer loses the seat, and the connection in the end.
func TestUnreadAnswersHoldNoSeats(t *testing.T) {
	control := oneSeat(t, 100)
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...), apiservertest.WithConfig(func(c *apiserver.Config) {
		c.FlowControl = control
		c.Authenticator = authn.Func(func(*http.Request) (*user.Info, bool, error) { return &user.Info{Name: "jane"}, true, nil })
		c.Authorizer = authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return authz.Allow, "", nil })
	}))
	a := &api{t, s.Client(), s.URL}
	for i := range 40 {
		a.create(configPath, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"},"data":{"k":%q}}`, i, strings.Repeat("x", 500_000)))
	}
	for _, query := range []string{"", "?watch=true"} {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: x\r\n\r\n", configPath, query)
		for control.Levels()[1].Executing == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	began := time.Now()
	a.want(a.do("GET", configPath+"/c0", ""), 200, "")
	if took := time.Since(began); took > 14*time.Second {
		t.Errorf("another request waited %v", took)
	}
}

// patient is a connection that remembers the earliest deadline it had.
type patient struct {
	header http.Header
	lines  chan string
	past   bool
}

func (p *patient) Header() http.Header { return p.header }
func (p *patient) WriteHeader(int)     {}
func (p *patient) Flush()              {}

func (p *patient) Write(data []byte) (int, error) {
	p.lines <- string(data)
	return len(data), nil
}

func (p *patient) SetWriteDeadline(t time.Time) error {
	p.past = p.past || !t.IsZero() && t.Before(time.Now())
	return nil
}

// A watch that has sent little for minutes may send much then.
func TestLateEventsOfAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := inMemory(t)
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go s.Run(ctx)
		p := &patient{header: http.Header{}, lines: make(chan string, 100)}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://local"+configPath+"?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		go s.ServeHTTP(p, r)
		time.Sleep(3 * time.Minute)
		a.create(configPath, configMap("late", `,"data":{"key":"`+strings.Repeat("x", 10_000)+`"}`))
		for line := range p.lines {
			if strings.Contains(line, "xxxx") {
				break
			}
		}
		synctest.Wait()
		if p.past {
			t.Error("a deadline was set that had passed")
		}
	})
}
