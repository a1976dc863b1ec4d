package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// The pages show what executes and waits, and values of clients do not look like columns.
func TestDebugPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startController(t, oneLevel(1, Level{Queues: 1, HandSize: 1, QueueLength: 5}))
		first, err := c.Enter(t.Context(), &Request{User: "a", Verb: "get", Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		leave := make(chan struct{})
		go func() {
			ticket, err := c.Enter(t.Context(), &Request{
				User: "b, x\n", Verb: "list", Path: "/apis/apps/v1/deployments",
				APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Namespace: "n",
			})
			if err != nil {
				t.Error(err)
				return
			}
			<-leave
			c.Leave(ticket)
		}()
		synctest.Wait()
		page := func(path string) string {
			w := httptest.NewRecorder()
			c.DebugHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, DebugPath+path, nil))
			if w.Code != http.StatusOK {
				t.Errorf("GET %s = %d, want 200", DebugPath+path, w.Code)
			}
			return strings.Join(strings.Fields(w.Body.String()), " ")
		}
		for path, want := range map[string]string{
			"dump_priority_levels":                  "work, 1, false, false, 1, 1, 1, 0, 0, 0,",
			"dump_queues":                           "work, 0, 1, 1, 1, 0.00300000ss, 1, 1, 0.00300000ss,",
			"dump_requests":                         `work, work, 0, 0, "b, x\n", 2000-01-01T00:00:00Z, 1, 0, 0s, , work, work, 0, -1, a, 2000-01-01T00:00:00Z, 1, 0, 0s, 2000-01-01T00:00:00Z,`,
			"dump_requests?includeRequestDetails=1": `"b, x\n", list, /apis/apps/v1/deployments, n, , apps/v1, deployments, ,`,
		} {
			if got := page(path); !strings.Contains(got, want) {
				t.Errorf("%s: %s\nwant %s", path, got, want)
			}
		}
		c.Leave(first)
		close(leave)
		synctest.Wait()
		if got := page("dump_priority_levels"); !strings.Contains(got, "work, 0, true, false, 0, 0, 2, 0, 0, 0,") {
			t.Errorf("at the end: %s", got)
		}
	})
}
