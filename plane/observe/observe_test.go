package observe_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/observe"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/schedule"
)

func Example() {
	config := plane.Config{}
	fmt.Println(observe.Add(&config, observe.Options{Profiles: true}))
	p, err := plane.New(config)
	fmt.Println(p != nil, err)
	// Output:
	// <nil>
	// true <nil>
}

// TestAdd: an administrator gets metrics of all parts, and profiles only if they are wanted; jane gets nothing. What the
// configuration had before is called, and handlers that it had win.
func TestAdd(t *testing.T) {
	for _, profiles := range []bool{true, false} {
		called := map[string]bool{}
		p := planetest.Start(t, planetest.WithoutNetwork(), planetest.With(func(c *plane.Config) {
			c.Scheduler = func(*schedule.Config) { called["Scheduler"] = true }
			c.Configure = func(_ *plane.Plane, config *apiserver.Config) error {
				called["Configure"] = true
				config.Handlers = map[string]http.Handler{"/debug/pprof/symbol": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "own") })}
				return nil
			}
			if err := observe.Add(c, observe.Options{Profiles: profiles}); err != nil {
				t.Error(err)
			}
		}))
		get := func(api *client.Client, path string) (string, error) {
			answer, err := api.Do(t.Context(), client.Request{Path: path})
			if err != nil {
				return "", err
			}
			return string(answer.Body), nil
		}
		for _, name := range []string{"apiserver_request_total", "apiserver_storage_objects", "workqueue_depth", "scheduler_pending_pods", "go_goroutines"} {
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // a part has metrics once it runs
				text, err := get(p.Client(), "/metrics")
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(text, "\n"+name) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("no metric %s", name)
				}
			}
		}
		if _, err := get(p.Client(), "/debug/pprof/goroutine"); (err == nil) != profiles {
			t.Errorf("profiles %v: %v", profiles, err)
		}
		if text, err := get(p.Client(), "/debug/pprof/symbol"); err != nil || text != "own" {
			t.Errorf(`profiles %t: GET /debug/pprof/symbol = %q, %v, want "own"`, profiles, text, err)
		}
		if _, err := get(p.As("jane"), "/metrics"); err == nil {
			t.Error("jane reads metrics")
		}
		if !called["Scheduler"] || !called["Configure"] {
			t.Errorf("called: %v", called)
		}
	}
}
