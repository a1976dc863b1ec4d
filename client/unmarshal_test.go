package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWithUnmarshal reads and writes in all ways. The function must decode protobuf reads and
// nothing else.
func TestWithUnmarshal(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		w := newWire(t)
		c := serve(t, client.Config{JSON: asJSON}, func(rw http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Query().Get("watch") != "":
				rw.Header().Set("Content-Type", accepted(r)+";stream=watch")
				w.event(rw, r, "ADDED", pod("watched", "10"))
				w.event(rw, r, "MODIFIED", pod("watched", "11"))
				<-r.Context().Done()
			case r.Method == http.MethodGet && r.URL.Path == "/api/v1/pods":
				w.respond(rw, r, 200, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []corev1.Pod{*pod("listed", "1")}})
			default:
				w.respond(rw, r, 200, pod("one", "1"))
			}
		})
		var mu sync.Mutex
		var by []string
		plain := typed.Pods(c)
		pods := plain.WithUnmarshal(func(data []byte, p *corev1.Pod) error {
			mu.Lock()
			defer mu.Unlock()
			err := p.Unmarshal(data)
			by = append(by, p.Name+p.ResourceVersion)
			return err
		})
		ctx := context.Background()
		for what, do := range map[string]func() error{
			"get":    func() error { _, err := plain.Get(ctx, "default", "one"); return err },
			"create": func() error { _, err := pods.Create(ctx, pod("one", "")); return err },
			"update": func() error { _, err := pods.Update(ctx, pod("one", "1")); return err },
			"patch": func() error {
				_, err := pods.Patch(ctx, "default", "one", types.MergePatchType, []byte(`{}`))
				return err
			},
		} {
			if err := do(); err != nil || len(by) > 0 {
				t.Errorf("%s: %v, by the function: %q", what, err, by)
			}
		}
		if p, err := pods.Get(ctx, "default", "one"); err != nil || p.Name != "one" || p.Kind != "Pod" {
			t.Fatal(p, err)
		}
		if all, _, err := pods.List(ctx, "", metav1.ListOptions{}); err != nil || len(all) != 1 || all[0].Name != "listed" || all[0].Kind != "Pod" {
			t.Fatal(all, err)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := pods.Sync(ctx, "", &recorder{stop: cancel, last: "put 11"}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		want := "[one1 listed1 listed1 watched10 watched11]"
		if asJSON {
			want = "[]"
		}
		if fmt.Sprint(by) != want {
			t.Errorf("JSON %v: %v by the function, want %s", asJSON, by, want)
		}
	}
}

// TestUnmarshalFails: Get and List return the function's error.
func TestUnmarshalFails(t *testing.T) {
	w := newWire(t)
	c := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		w.respond(rw, r, 200, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "more"}, Items: []corev1.Pod{*pod("a", "1")}})
	})
	broken := errors.New("broken")
	pods := typed.Pods(c).WithUnmarshal(func([]byte, *corev1.Pod) error { return broken })
	if _, _, err := pods.List(t.Context(), "", metav1.ListOptions{Limit: 1}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestPagesOverlap lets the objects of a page wait for the request for the next one.
func TestPagesOverlap(t *testing.T) {
	w := newWire(t)
	asked := make(chan struct{})
	c := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []corev1.Pod{*pod("a", "1")}}
		if r.URL.Query().Get("continue") == "" {
			list.Continue = "more"
		} else {
			list.Items[0].Name = "b"
			close(asked)
		}
		w.respond(rw, r, 200, list)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pods := typed.Pods(c).WithUnmarshal(func(data []byte, p *corev1.Pod) error {
		select {
		case <-asked:
			return p.Unmarshal(data)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	all, revision, err := pods.List(ctx, "", metav1.ListOptions{Limit: 1})
	if err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Name != "b" || revision != "9" {
		t.Errorf("%v at %s: %v", all, revision, err)
	}
}
