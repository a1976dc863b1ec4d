package apiserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
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
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestMain checks that no test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestHundredServers starts a hundred servers at once in one process, uses each
// over TLS and leaves an open watch for the shutdown to end.
func TestHundredServers(t *testing.T) {
	var group sync.WaitGroup
	t.Run("servers", func(t *testing.T) {
		for i := range 100 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				s := apiservertest.Start(t, apiservertest.WithResources(resources()...))
				a := &api{t, s.Client(), s.URL}
				a.create(configPath, configMap("a", ""))
				response, err := s.Client().Get(s.URL + configPath + "?watch=true")
				if err != nil {
					t.Fatal(err)
				}
				group.Go(func() {
					defer response.Body.Close()
					if data, _ := io.ReadAll(response.Body); !strings.Contains(string(data), `"ADDED"`) {
						t.Errorf("watched %q", data)
					}
				})
			})
		}
	})
	group.Wait()
}

func TestWireSpeaksHTTP2(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...))
	response, err := s.Client().Get(s.URL + "/version")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.ProtoMajor != 2 || response.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%s, TLS %x", response.Proto, response.TLS.Version)
	}
}

func TestHeaderLimit(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...))
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // HTTP/1.1, which counts all headers
	}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Large", strings.Repeat("a", 1<<20+8<<10))
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("GET /version with a header of more than 1 MiB = %s, want 431", response.Status)
	}
}

func TestPanicIsContained(t *testing.T) {
	a := start(t, apiservertest.WithAdmission(admit{mutate: func(context.Context, *admission.Request) error { panic("plugin") }}))
	a.want(a.do("POST", configPath, configMap("a", "")), 500, "handler panicked")
	a.want(a.do("GET", configPath, ""), 200, "")
}

// oneSeat lets one request in at a time, and so many more of each user wait.
func oneSeat(t *testing.T, waiting int) *flowcontrol.Controller {
	config := flowcontrol.Mandatory(1)
	config.Levels[1].Queues, config.Levels[1].HandSize, config.Levels[1].QueueLength = 64, 1, waiting
	c, err := flowcontrol.NewController(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTooManyInFlight has one user take the only seat and fill the queue: more is
// refused, another user's request waits its turn, watches that have begun and
// administrators are not counted.
func TestTooManyInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := inMemory(t, func(c *apiserver.Config) {
			c.FlowControl = oneSeat(t, 2)
			c.Admission = admit{mutate: func(_ context.Context, in *admission.Request) error {
				time.Sleep(time.Second)
				return nil
			}}
		})
		other := &api{t, &http.Client{Transport: s.Transport(&user.Info{Name: "other"})}, a.base}
		master := &api{t, &http.Client{Transport: s.Transport(&user.Info{Name: "root", Groups: []string{user.Masters}})}, a.base}
		a.watch(configPath + "?watch=true")
		synctest.Wait() // until it no longer has the seat
		var group sync.WaitGroup
		began := time.Now()
		for i := range 3 {
			group.Go(func() { a.create(configPath, configMap(fmt.Sprint("a", i), "")) })
		}
		synctest.Wait()
		got := a.want(a.do("GET", configPath, ""), 429, "too many requests, please try again later")
		if got.header.Get("Retry-After") != "1" {
			t.Errorf("headers %v", got.header)
		}
		master.want(master.do("GET", configPath, ""), 200, "")
		if waited := time.Since(began); waited != 0 {
			t.Errorf("those who are not counted waited %v", waited)
		}
		other.want(other.do("GET", configPath, ""), 200, "")
		if waited := time.Since(began); waited > 2*time.Second {
			t.Errorf("the other waited %v", waited)
		}
		group.Wait()
	})
}

func TestHooks(t *testing.T) { synctest.Test(t, testHooks) }

func testHooks(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	_, a := inMemory(t, func(c *apiserver.Config) {
		c.Hooks.Ended = func(s apiserver.RequestSummary) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintln(s.Verb, s.Resource.Resource, s.Code))
		}
		c.Hooks.Watching = func(_ schema.GroupVersionResource, delta int) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintln("watching", delta))
		}
	})
	a.do("GET", configPath+"/a", "")
	a.do("GET", configPath+"?watch=true&timeoutSeconds=1", "")
	a.do("GET", "/version", "")
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(lines, ""); got != "get configmaps 404\nwatching 1\nwatching -1\nwatch configmaps 200\nget  200\n" {
		t.Errorf("the hooks tell %q, want a get of code 404, a watch that begins, ends and has code 200, and a get of code 200", got)
	}
}

// inMemory is a server without a listener, for tests in a bubble of fake time.
func inMemory(t *testing.T, changes ...func(*apiserver.Config)) (*apiserver.Server, *api) {
	t.Helper()
	config := apiserver.Config{
		Store: memstore.New(), Resources: resources(),
		Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) { return &user.Info{Name: "joe"}, true, nil }),
		Authorizer: authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
			return authz.Allow, "", nil
		}),
	}
	for _, change := range changes {
		change(&config)
	}
	s, err := apiserver.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s, &api{t, &http.Client{Transport: s.Transport(&user.Info{Name: "jane"})}, "http://memory"}
}

func TestFutureRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := inMemory(t)
		began := time.Now()
		got := a.want(a.do("GET", configPath+"?resourceVersion=1000000", ""), 504, "Too large resource version: 1000000, current:")
		if got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, "ResourceVersionTooLarge") || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v %s", time.Since(began), got.header, got.body)
		}
		first := into[struct {
			Metadata struct{ ResourceVersion string }
		}](t, a.create(configPath, configMap("a", ""))).Metadata.ResourceVersion
		next := first[:len(first)-1] + string(first[len(first)-1]+1)
		var group sync.WaitGroup
		group.Go(func() { a.want(a.do("GET", configPath+"/b?resourceVersion="+next, ""), 200, "") })
		time.Sleep(time.Second)
		a.create(configPath, configMap("b", ""))
		group.Wait()
	})
}

// hung is a store that does not answer.
type hung struct{ storage.Store }

func (hung) List(ctx context.Context, _ storage.Key, _ storage.ListOptions) (storage.Page, error) {
	<-ctx.Done()
	return storage.Page{}, ctx.Err()
}

func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := inMemory(t, func(c *apiserver.Config) { c.Store = hung{c.Store} })
		began := time.Now()
		a.want(a.do("GET", configPath+"/a", ""), 504, "did not complete")
		if took := time.Since(began); took != time.Minute {
			t.Errorf("after %v", took)
		}
	})
}

func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := inMemory(t)
		s := a.watch(configPath + "?watch=true&allowWatchBookmarks=true&labelSelector=none&timeoutSeconds=150")
		a.create(configPath, configMap("a", ""))
		began := time.Now()
		mark := s.want("BOOKMARK/")
		if time.Since(began) != time.Minute || mark.ResourceVersion == "" || len(mark.Annotations) > 0 {
			t.Errorf("after %v: %+v", time.Since(began), mark)
		}
		if e := s.next(); e != nil || time.Since(began) != 150*time.Second { // nothing happened since
			t.Errorf("after %v: %+v", time.Since(began), e)
		}
		s.close()
		synctest.Wait()
	})
}

func TestRunEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := inMemory(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		<-s.Ready()
		watch := a.watch(configPath + "?watch=true")
		cancel()
		if e := watch.next(); e != nil {
			t.Errorf("event %+v", e)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := a.client.Get("http://memory/version"); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("after Run: %v", err)
		}
	})
}

func TestTransportEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := inMemory(t)
		closed := a.watch(configPath + "?watch=true")
		closed.close()
		synctest.Wait() // the handler has ended: goroutines left in the bubble fail the test
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", "http://memory"+configPath+"?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := a.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("read after cancel: %v", err)
		}
	})
}

func TestPlainHTTPMustBeAskedFor(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = apiserver.New(apiserver.Config{
		Store: memstore.New(), Listener: listener,
		Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) { return nil, false, nil }),
		Authorizer:    authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return 0, "", nil }),
	})
	if err == nil || !strings.Contains(err.Error(), "InsecurePlainHTTP") {
		t.Errorf("New with a plain listener = %v, want an error with %q", err, "InsecurePlainHTTP")
	}
}
