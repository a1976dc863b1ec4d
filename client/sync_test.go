package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestList(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		w := newWire(t)
		var asked []string
		c := serve(t, client.Config{JSON: asJSON}, func(rw http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.RawQuery)
			list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}}
			switch r.URL.Query().Get("continue") {
			case "":
				list.Items, list.Continue = []corev1.Pod{*pod("a", "1"), *pod("b", "2")}, "more"
			case "more":
				list.Items = []corev1.Pod{*pod("c", "3")}
			}
			w.respond(rw, r, 200, list)
		})
		pods, revision, err := typed.Pods(c).List(context.Background(), "default",
			metav1.ListOptions{Limit: 2, LabelSelector: "x", ResourceVersion: "5"})
		if err != nil || revision != "9" || len(pods) != 3 {
			t.Fatalf("%d pods at %s: %v", len(pods), revision, err)
		}
		for i, name := range []string{"a", "b", "c"} {
			if p := pods[i]; p.Name != name || p.Labels["app"] != name || p.Kind != "Pod" || p.APIVersion != "v1" {
				t.Errorf("item %d of the list is %+v, want the v1 Pod %s with the label app=%s", i, p, name, name)
			}
		}
		if !slices.Equal(asked, []string{"labelSelector=x&limit=2&resourceVersion=5", "continue=more&labelSelector=x&limit=2"}) {
			t.Errorf("asked %q", asked)
		}
	}
}

// TestListKeepsItsOrder lists a page that is decoded in parts.
func TestListKeepsItsOrder(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		w := newWire(t)
		c := serve(t, client.Config{JSON: asJSON}, func(rw http.ResponseWriter, r *http.Request) {
			list := &corev1.PodList{}
			for i := range 1234 {
				list.Items = append(list.Items, *pod(fmt.Sprint(i), fmt.Sprint(i)))
			}
			w.respond(rw, r, 200, list)
		})
		pods, _, err := typed.Pods(c).List(t.Context(), "", metav1.ListOptions{})
		if err != nil || len(pods) != 1234 {
			t.Fatalf("%d pods: %v", len(pods), err)
		}
		for i, p := range pods {
			if want := fmt.Sprint(i); p.Name != want || p.ResourceVersion != want {
				t.Fatalf("pod %d is %s", i, p.Name)
			}
		}
	}
}

func TestListBeginsAnewWhenAPageIsGone(t *testing.T) {
	w := newWire(t)
	c := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []corev1.Pod{*pod("a", "1")}}
		switch {
		case q.Get("continue") != "":
			w.fail(rw, r, 410, metav1.StatusReasonExpired, "gone")
			return
		case q.Get("limit") != "":
			list.Continue = "more"
		default:
			list.Items = append(list.Items, *pod("b", "2"))
		}
		w.respond(rw, r, 200, list)
	})
	pods, _, err := typed.Pods(c).List(context.Background(), "", metav1.ListOptions{Limit: 1})
	if err != nil || len(pods) != 2 || pods[0].Name != "a" || pods[1].Name != "b" {
		t.Errorf("%d pods: %v", len(pods), err)
	}
}

// recorder is a Sink that records its calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
	stop  func() // called after the last call
	last  string // a prefix of the last call
}

func (s *recorder) add(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	if s.last != "" && strings.HasPrefix(call, s.last) {
		s.stop()
	}
}

func (s *recorder) Replace(revision string, pods []*corev1.Pod) {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	s.add(fmt.Sprintf("replace %s %s", revision, strings.Join(names, ",")))
}
func (s *recorder) Put(revision string, p *corev1.Pod)    { s.add("put " + revision + " " + p.Name) }
func (s *recorder) Remove(revision string, p *corev1.Pod) { s.add("remove " + revision + " " + p.Name) }
func (s *recorder) Bookmark(revision string)              { s.add("bookmark " + revision) }

// TestSync follows a server that ends the watch and forgets revisions in both possible ways, and
// checks each request.
func TestSync(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		t.Run(fmt.Sprintf("json=%v", asJSON), func(t *testing.T) {
			w := newWire(t)
			lists := 0
			var asked []string
			c := serve(t, client.Config{JSON: asJSON}, func(rw http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				if q.Get("fieldSelector") != "spec.nodeName=a" || r.URL.Path != "/api/v1/namespaces/default/pods" {
					t.Errorf("asked %s", r.URL)
				}
				if q.Get("watch") == "" {
					lists++
					asked = append(asked, "list")
					w.respond(rw, r, 200, &corev1.PodList{
						ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(10 * lists)}, Items: []corev1.Pod{*pod("a", "1")}})
					return
				}
				asked = append(asked, "watch "+q.Get("resourceVersion"))
				if q.Get("allowWatchBookmarks") != "true" || q.Get("timeoutSeconds") == "" {
					t.Errorf("asked %s", r.URL)
				}
				if q.Get("resourceVersion") == "20" {
					w.fail(rw, r, 410, metav1.StatusReasonExpired, "gone") // before a stream began
					return
				}
				rw.Header().Set("Content-Type", accepted(r)+";stream=watch")
				switch q.Get("resourceVersion") {
				case "5":
					w.event(rw, r, "ERROR", &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
				case "10":
					w.event(rw, r, "ADDED", pod("b", "11"))
					w.event(rw, r, "MODIFIED", pod("a", "12"))
					w.event(rw, r, "BOOKMARK", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "15"}})
				case "15":
					w.event(rw, r, "DELETED", pod("b", "16"))
					<-r.Context().Done()
				}
			})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			sink := &recorder{stop: cancel, last: "remove 16 b"}
			err := typed.Pods(c).Where("default", "", "spec.nodeName=a").Sync(ctx, "5", sink)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			want := []string{"replace 10 a", "put 11 b", "put 12 a", "bookmark 15", "remove 16 b"}
			if !slices.Equal(sink.calls, want) {
				t.Errorf("the sink received %q", sink.calls)
			}
			if !slices.Equal(asked, []string{"watch 5", "list", "watch 10", "watch 15"}) {
				t.Errorf("the server was asked %q", asked)
			}

			asked = nil
			if err := typed.Pods(c).Where("default", "", "spec.nodeName=a").Sync(context.Background(), "", &recorder{}); err == nil {
				t.Error("no error when even a fresh revision is gone")
			}
			if !slices.Equal(asked, []string{"list", "watch 20"}) {
				t.Errorf("the server was asked %q", asked)
			}
		})
	}
}

func TestSyncReportsBrokenStreams(t *testing.T) {
	w := newWire(t)
	for name, stream := range map[string]func(http.ResponseWriter, *http.Request){
		"ended at once": func(http.ResponseWriter, *http.Request) {},
		"cut":           func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"half a frame":  func(rw http.ResponseWriter, _ *http.Request) { rw.Write([]byte{0, 0, 1, 0, 1}) },
		"huge frame":    func(rw http.ResponseWriter, _ *http.Request) { rw.Write([]byte{255, 255, 255, 255}) },
		"garbage":       func(rw http.ResponseWriter, _ *http.Request) { rw.Write([]byte{0, 0, 0, 2, 255, 255}) },
		"unknown event": func(rw http.ResponseWriter, r *http.Request) { w.event(rw, r, "EXPLODED", pod("a", "2")) },
		"another kind":  func(rw http.ResponseWriter, r *http.Request) { w.event(rw, r, "ADDED", &corev1.Node{}) },
		"failure": func(rw http.ResponseWriter, r *http.Request) {
			w.event(rw, r, "ERROR", &metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError})
		},
	} {
		c := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", client.Protobuf+";stream=watch")
			stream(rw, r)
		})
		sink := &recorder{}
		if err := typed.Pods(c).Sync(context.Background(), "1", sink); err == nil || len(sink.calls) > 0 {
			t.Errorf("%s: error %v, the sink received %q", name, err, sink.calls)
		}
	}
}
