package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pieceRecorder receives lists in pieces.
type pieceRecorder struct{ recorder }

func (s *pieceRecorder) Begin()              { s.add("begin") }
func (s *pieceRecorder) Item(p *corev1.Pod)  { s.add("item " + p.Name) }
func (s *pieceRecorder) End(revision string) { s.add("end " + revision) }

var endMark = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
	ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}

// TestInitialEvents follows servers that send existing objects in a watch, refuse to, stall, or
// break off. The sink receives the same objects from each.
func TestInitialEvents(t *testing.T) {
	listed := []string{"begin", "item a", "item b", "end 9"}
	for name, c := range map[string]struct {
		// initial answers the watch that requests initial events.
		initial func(wire, http.ResponseWriter, *http.Request)
		want    []string
		lists   int
	}{
		"sent": {func(w wire, rw http.ResponseWriter, r *http.Request) {
			w.event(rw, r, "ADDED", pod("a", "1"))
			w.event(rw, r, "BOOKMARK", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"}})
			w.event(rw, r, "ADDED", pod("b", "2"))
			w.event(rw, r, "BOOKMARK", endMark)
			w.event(rw, r, "ADDED", pod("c", "10"))
		}, append(slices.Clone(listed), "put 10 c"), 0},
		"refused": {func(w wire, rw http.ResponseWriter, r *http.Request) {
			w.fail(rw, r, 422, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden")
		}, append(slices.Clone(listed), "put 10 c"), 1},
		"stalled": {func(w wire, rw http.ResponseWriter, r *http.Request) {
			w.event(rw, r, "ADDED", pod("a", "1"))
			<-r.Context().Done()
		}, append([]string{"begin", "item a"}, append(slices.Clone(listed), "put 10 c")...), 1},
		"alive without an end": {func(w wire, rw http.ResponseWriter, r *http.Request) {
			w.event(rw, r, "ADDED", pod("a", "1"))
			for tick := time.Tick(5 * time.Millisecond); r.Context().Err() == nil; <-tick {
				w.event(rw, r, "BOOKMARK", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"}})
			}
		}, append([]string{"begin", "item a"}, append(slices.Clone(listed), "put 10 c")...), 1},
		"ended": {func(w wire, rw http.ResponseWriter, r *http.Request) {
			w.event(rw, r, "ADDED", pod("a", "1"))
		}, append([]string{"begin", "item a"}, append(slices.Clone(listed), "put 10 c")...), 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			lists := 0
			cl := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				stream := func() { rw.Header().Set("Content-Type", accepted(r)+";stream=watch") }
				switch {
				case q.Get("sendInitialEvents") == "true":
					if q.Get("resourceVersionMatch") != "NotOlderThan" || q.Get("resourceVersion") != "" || q.Get("allowWatchBookmarks") != "true" {
						t.Errorf("asked %s", r.URL)
					}
					stream()
					c.initial(w, rw, r)
				case q.Get("watch") == "true":
					stream()
					if q.Get("resourceVersion") == "9" {
						w.event(rw, r, "ADDED", pod("c", "10"))
					}
					<-r.Context().Done()
				default:
					lists++
					w.respond(rw, r, 200, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []corev1.Pod{*pod("a", "1"), *pod("b", "2")}})
				}
			})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			sink := &pieceRecorder{recorder{stop: cancel, last: "put 10"}}
			err := typed.Pods(cl).Where("", "", "").WithInitialEvents(50*time.Millisecond).Sync(ctx, "", sink)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			if !slices.Equal(sink.calls, c.want) {
				t.Errorf("the sink received %q, want %q", sink.calls, c.want)
			}
			if lists != c.lists {
				t.Errorf("%d lists, want %d", lists, c.lists)
			}
		})
	}
}

// TestInitialEventsForAPlainSink uses a sink that has only Replace.
func TestInitialEventsForAPlainSink(t *testing.T) {
	w := newWire(t)
	c := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", accepted(r)+";stream=watch")
		w.event(rw, r, "ADDED", pod("a", "1"))
		w.event(rw, r, "ADDED", pod("b", "2"))
		w.event(rw, r, "BOOKMARK", endMark)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sink := &recorder{stop: cancel, last: "replace"}
	_ = typed.Pods(c).Where("", "", "").WithInitialEvents(time.Minute).Sync(ctx, "", sink)
	if !slices.Equal(sink.calls, []string{"replace 9 a,b"}) {
		t.Errorf("the sink received %q", sink.calls)
	}
}

// TestListComesInPieces lets a page expire: the list starts over.
func TestListComesInPieces(t *testing.T) {
	w := newWire(t)
	c := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []corev1.Pod{*pod("a", "1")}}
		switch {
		case q.Get("watch") == "true":
			<-r.Context().Done()
			return
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
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sink := &pieceRecorder{recorder{stop: cancel, last: "end"}}
	_ = typed.Pods(c).Sync(ctx, "", sink)
	if want := []string{"begin", "item a", "begin", "item a", "item b", "end 9"}; !slices.Equal(sink.calls, want) {
		t.Errorf("the sink received %q, want %q", sink.calls, want)
	}
}

// knowing is a sink that has pod a at revision 1 and pod b at revision 1.
type knowing struct{ pieceRecorder }

func (s *knowing) Unchanged(key, revision string) bool {
	s.add("asked " + key + " " + revision)
	return revision == "1"
}

// TestUnchangedIsNotDecoded sends a list in which one pod has changed.
func TestUnchangedIsNotDecoded(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		w := newWire(t)
		c := serve(t, client.Config{JSON: asJSON}, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "true" {
				<-r.Context().Done()
				return
			}
			w.respond(rw, r, 200, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []corev1.Pod{*pod("a", "1"), *pod("b", "2")}})
		})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		sink := &knowing{pieceRecorder{recorder{stop: cancel, last: "end"}}}
		_ = typed.Pods(c).Sync(ctx, "", sink)
		want := []string{"begin", "asked default/a 1", "asked default/b 2", "item b", "end 9"}
		if asJSON {
			want = []string{"begin", "item a", "item b", "end 9"}
		}
		if !slices.Equal(sink.calls, want) {
			t.Errorf("JSON %v: the sink received %q, want %q", asJSON, sink.calls, want)
		}
	}
}

// TestServerBehind watches from a revision that the server has not reached. Sync must return an
// error, so that the caller tries again, and must not list older objects.
func TestServerBehind(t *testing.T) {
	w := newWire(t)
	c := serve(t, client.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "true" {
			t.Error("it listed")
		}
		w.fail(rw, r, 504, metav1.StatusReasonTimeout, "Too large resource version: 100, current: 50")
	})
	sink := &recorder{}
	err := typed.Pods(c).Sync(context.Background(), "100", sink)
	if !apierrors.IsTimeout(err) || len(sink.calls) > 0 {
		t.Errorf("ended with %v, the sink received %q", err, sink.calls)
	}
}

// TestInformerOfARealServer follows a server with initial events and with lists.
func TestInformerOfARealServer(t *testing.T) {
	for name, c := range clients(t) {
		t.Run(name, func(t *testing.T) {
			maps := typed.ConfigMaps(c)
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if _, err := typed.Namespaces(c).Create(t.Context(), namespace); err != nil {
				t.Fatal(err)
			}
			create := func(n string) string {
				m, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: n, Namespace: name}})
				if err != nil {
					t.Fatal(err)
				}
				return m.ResourceVersion
			}
			for i := range 3 {
				create(fmt.Sprint(i))
			}
			for _, source := range []client.Selection[*corev1.ConfigMap]{maps.Where(name, "", ""), maps.Where(name, "", "").WithInitialEvents(time.Minute)} {
				inf, err := informer.For(source)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- inf.Run(ctx) }()
				<-inf.Synced()
				before := len(slices.Collect(inf.All()))
				last := fmt.Sprint(before)
				if err := inf.WaitFor(ctx, create(last)); err != nil {
					t.Fatal(err)
				}
				if _, ok := inf.Get(name + "/" + last); !ok || before < 3 {
					t.Errorf("%d objects at first, the one after found: %v", before, ok)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
