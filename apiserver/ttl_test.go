package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
)

// TestTimeToLive checks that an object of a resource with a TTL is deleted when no
// client has written it for that time.
func TestTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := configMaps()
		short.TTL = time.Hour
		server, err := apiserver.New(apiserver.Config{
			Store: memstore.New(), Resources: []apiserver.Resource{short},
			Authenticator: unknown{}, Authorizer: authz.Superusers("all"),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- server.Run(ctx) }()
		client := &http.Client{Transport: server.Transport(&user.Info{Name: "u", Groups: []string{"all"}})}
		ask := func(method, path, body string) int {
			r, err := http.NewRequest(method, "http://memory/api/v1/namespaces/default/configmaps"+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/merge-patch+json")
			if method == http.MethodPost {
				r.Header.Set("Content-Type", "application/json")
			}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			return answer.StatusCode
		}
		for i, step := range []struct {
			after              time.Duration
			method, path, body string
			want               int
		}{
			{0, "POST", "", `{"metadata": {"name": "c"}}`, http.StatusCreated},
			{59 * time.Minute, "PATCH", "/c", `{"data": {"a": "b"}}`, http.StatusOK},
			{59 * time.Minute, "GET", "/c", "", http.StatusOK},
			{2 * time.Minute, "GET", "/c", "", http.StatusNotFound},
		} {
			time.Sleep(step.after)
			if code := ask(step.method, step.path, step.body); code != step.want {
				t.Error(fmt.Errorf("step %d: %d, want %d", i, code, step.want))
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// unknown knows no user.
type unknown struct{}

func (unknown) Authenticate(*http.Request) (*user.Info, bool, error) { return nil, false, nil }
