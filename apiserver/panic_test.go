package apiserver_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestPanicInTheMiddle panics when an answer has begun: it must not look whole
// to the client, over the wire or through memory.
func TestPanicInTheMiddle(t *testing.T) {
	r := pods()
	r.Subresources = []apiserver.Subresource{apiserver.Proxy{Name: "log", Verbs: []string{"get"}, Connect: func(runtime.Object) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "half a l")
			if r.URL.RawQuery == "flush" {
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
			panic("log")
		}), nil
	}}}
	s := apiservertest.Start(t, apiservertest.WithResources(r))
	a := &api{t, s.As("admin", "system:masters"), s.URL}
	a.create(podPath, pod("p", ""))
	for name, client := range map[string]*http.Client{"wire": s.Client(), "memory": a.client} {
		for _, query := range []string{"", "?flush"} {
			response, err := client.Get(s.URL + podPath + "/p/log" + query)
			if err == nil {
				_, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			if err == nil {
				t.Errorf("%s%s: a broken answer looks whole", name, query)
			}
			if name == "memory" && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: GET /p/log%s = %v, want %v", name, query, err, io.ErrUnexpectedEOF)
			}
		}
		a.want(a.do("GET", podPath+"/p", ""), 200, "")
	}
}
