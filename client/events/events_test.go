package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/client"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is an in-process server for events. It speaks JSON.
type store struct {
	mu     sync.Mutex
	events map[string]*corev1.Event
	seen   []string
	fail   func(r *http.Request) error
	// strict refuses to create an event that exists.
	strict bool
}

func (s *store) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r.Method)
	if s.fail != nil {
		if err := s.fail(r); err != nil {
			return nil, err
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	e := new(corev1.Event)
	if r.Method == http.MethodPatch {
		if e = s.events[r.URL.Path[len("/api/v1/namespaces/default/events/"):]]; e == nil {
			return respond(404, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Reason: metav1.StatusReasonNotFound})
		}
	}
	if err := json.Unmarshal(body, e); err != nil {
		return nil, err
	}
	e.Kind, e.APIVersion = "Event", "v1"
	if r.Method == http.MethodPost && s.strict && s.events[e.Name] != nil {
		return respond(409, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Reason: metav1.StatusReasonAlreadyExists})
	}
	s.events[e.Name] = e
	return respond(200, e)
}

func respond(code int, object any) (*http.Response, error) {
	body, err := json.Marshal(object)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {client.JSON}}, Body: io.NopCloser(bytes.NewReader(body))}, err
}

func start(t *testing.T) (*store, *Recorder, context.CancelFunc) {
	s := &store{events: map[string]*corev1.Event{}}
	config := client.InProcess(s)
	config.JSON = true
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Client: c, Component: "scheduler", Host: "a"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return s, r, cancel
}

var web = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u", ResourceVersion: "5"}}

func (s *store) only(t *testing.T) *corev1.Event {
	t.Helper()
	if len(s.events) != 1 {
		t.Fatalf("%d events are stored", len(s.events))
	}
	for _, e := range s.events {
		return e
	}
	return nil
}

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, cancel := start(t)
		defer cancel()
		began := time.Now()
		r.Event(web, corev1.EventTypeNormal, "Scheduled", "assigned to a")
		synctest.Wait()
		e := s.only(t)
		about := corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Name: "web", Namespace: "default", UID: "u", ResourceVersion: "5"}
		if e.InvolvedObject != about || e.Type != "Normal" || e.Reason != "Scheduled" || e.Message != "assigned to a" || e.Count != 1 ||
			e.Source != (corev1.EventSource{Component: "scheduler", Host: "a"}) || e.ReportingController != "scheduler" ||
			e.Name != fmt.Sprintf("web.%x", began.UnixNano()) || e.Namespace != "default" {
			t.Errorf("the event is %+v, want web.%x in default about %v, Normal, Scheduled, \"assigned to a\", count 1, by scheduler on a",
				e, began.UnixNano(), about)
		}
		for range 2 {
			time.Sleep(time.Minute)
			again := web.DeepCopy()
			again.ResourceVersion = "6"
			r.Event(again, corev1.EventTypeNormal, "Scheduled", "assigned to a")
			synctest.Wait()
		}
		e = s.only(t)
		if e.Count != 3 || !e.FirstTimestamp.Time.Equal(began.Truncate(time.Second)) ||
			!e.LastTimestamp.Time.Equal(began.Add(2*time.Minute).Truncate(time.Second)) {
			t.Errorf("after three times: %+v", e)
		}
		clear(s.events) // it expired
		r.Event(web, corev1.EventTypeNormal, "Scheduled", "assigned to a")
		synctest.Wait()
		if e = s.only(t); e.Count != 4 || !e.FirstTimestamp.Time.Equal(began.Truncate(time.Second)) {
			t.Errorf("after it expired: %+v", e)
		}
		time.Sleep(time.Nanosecond) // an event is named by its nanosecond
		r.Event(web, corev1.EventTypeNormal, "Scheduled", "assigned to b")
		r.Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, corev1.EventTypeWarning, "Scheduled", "assigned to a")
		synctest.Wait()
		if len(s.events) != 3 {
			t.Errorf("%d events are stored, want 3", len(s.events))
		}
	})
}

// TestSameNanosecond: events about one object are all stored although the time, which is in their names,
// is the same. Each is counted under its own name.
func TestSameNanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, cancel := start(t)
		defer cancel()
		s.strict = true
		for _, message := range []string{"a", "b", "c"} {
			r.Event(web, corev1.EventTypeNormal, "Created", message)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		r.Event(web, corev1.EventTypeNormal, "Created", "b")
		synctest.Wait()
		counts := map[string]int32{}
		for _, e := range s.events {
			counts[e.Message] = e.Count
		}
		if want := map[string]int32{"a": 1, "b": 2, "c": 1}; !maps.Equal(counts, want) {
			t.Errorf("stored are %v, want %v", counts, want)
		}
	})
}

func TestLimitPerObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, cancel := start(t)
		defer cancel()
		record := func(n int) {
			for i := range n {
				r.Event(web, corev1.EventTypeWarning, "BackOff", fmt.Sprint("attempt ", i))
			}
			synctest.Wait()
		}
		record(100)
		if len(s.seen) != burst {
			t.Errorf("%d of 100 were sent, want %d", len(s.seen), burst)
		}
		time.Sleep(refill)
		record(100)
		if len(s.seen) != burst+1 {
			t.Errorf("%d were sent after a refill, want %d", len(s.seen), burst+1)
		}
		r.Event(&corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Name: "other", Namespace: "default"}, "Normal", "x", "y")
		synctest.Wait()
		if len(s.seen) != burst+2 {
			t.Error("another object has no budget of its own")
		}
	})
}

// TestCombinesSimilarEvents: of events that differ only in their messages, nine are stored
// separately, and one represents all others.
func TestCombinesSimilarEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, cancel := start(t)
		defer cancel()
		say := func(about *corev1.Pod, kind, reason string, numbers ...int) {
			for _, n := range numbers {
				time.Sleep(time.Second) // an event is named by its nanosecond
				r.Event(about, kind, reason, fmt.Sprint("attempt ", n))
				synctest.Wait()
			}
		}
		want := func(step string, want map[string]int32) {
			t.Helper()
			got := map[string]int32{}
			for _, e := range s.events {
				got[e.Reason+": "+e.Message] += e.Count
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s: stored are %v, want %v", step, got, want)
			}
		}
		say(web, "Normal", "Pull", 0, 1, 2, 3, 4, 5, 6, 7, 8)
		alone := map[string]int32{}
		for n := range 9 {
			alone[fmt.Sprint("Pull: attempt ", n)] = 1
		}
		want("nine", alone)
		began := time.Now().Add(time.Second)
		say(web, "Normal", "Pull", 9)
		alone["Pull: (combined from similar events): attempt 9"] = 1
		want("the tenth", alone)
		say(web, "Normal", "Pull", 10, 11, 10)
		delete(alone, "Pull: (combined from similar events): attempt 9")
		alone["Pull: (combined from similar events): attempt 10"] = 4
		want("three more", alone)
		for _, e := range s.events {
			if e.Count == 4 && !(e.FirstTimestamp.Time.Equal(began.Truncate(time.Second)) && e.LastTimestamp.Time.Equal(began.Add(3*time.Second).Truncate(time.Second)) &&
				e.Name == fmt.Sprintf("web.%x", began.UnixNano()) && e.Source.Component == "scheduler" && e.InvolvedObject.Name == "web") {
				t.Errorf("combined: %+v, want one of %v and three seconds after", e, began)
			}
		}
		// Events stored separately stay so; another reason and a warning are other groups.
		say(web, "Normal", "Pull", 3)
		say(web, "Normal", "Start", 20)
		say(web, "Warning", "Pull", 21)
		alone["Pull: attempt 3"], alone["Start: attempt 20"], alone["Pull: attempt 21"] = 2, 1, 1
		want("others", alone)
		// The group starts over after ten quiet minutes, not before.
		time.Sleep(together - 3*time.Second) // the events of other groups took two seconds
		say(web, "Normal", "Pull", 12)
		delete(alone, "Pull: (combined from similar events): attempt 10")
		alone["Pull: (combined from similar events): attempt 12"] = 5
		want("after ten minutes", alone)
		time.Sleep(together)
		say(web, "Normal", "Pull", 13)
		alone["Pull: attempt 13"] = 1
		want("after more than ten minutes", alone)
	})
}

// TestCountsWhatIsDropped: the count includes dropped events, and warnings have a budget of their
// own.
func TestCountsWhatIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, cancel := start(t)
		defer cancel()
		for range 40 {
			r.Event(web, "Normal", "Pulled", "again")
		}
		synctest.Wait()
		if e := s.only(t); e.Count != burst || len(s.seen) != burst {
			t.Errorf("count %d after %d requests, want %d", e.Count, len(s.seen), burst)
		}
		time.Sleep(time.Nanosecond)
		r.Event(web, "Normal", "Started", "never stored")
		time.Sleep(refill)
		r.Event(web, "Normal", "Pulled", "again")
		synctest.Wait()
		if e := s.only(t); e.Count != 41 {
			t.Errorf("count %d, want 41", e.Count)
		}
		time.Sleep(refill)
		r.Event(web, "Normal", "Started", "never stored")
		time.Sleep(time.Nanosecond)
		r.Event(web, "Warning", "Failed", "another budget")
		synctest.Wait()
		counts := map[string]int32{}
		for _, e := range s.events {
			counts[e.Reason] = e.Count
		}
		if want := map[string]int32{"Pulled": 41, "Started": 2, "Failed": 1}; !maps.Equal(counts, want) {
			t.Errorf("counts %v, want %v", counts, want)
		}
	})
}

func TestEventNames(t *testing.T) {
	now := time.Unix(0, 0xabc)
	if got := nameOf("web", now); got != "web.abc" {
		t.Error(got)
	}
	for _, name := range []string{"system:node", strings.Repeat("a", 250), "Upper"} {
		got, again := nameOf(name, now), nameOf(name, now)
		if len(validation.IsDNS1123Subdomain(got)) > 0 || got == again {
			t.Errorf("of %s: %q, and then %q", name, got, again)
		}
	}
}

func TestRetriesConnectionsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, cancel := start(t)
		defer cancel()
		s.fail = func(*http.Request) error {
			if len(s.seen) < 3 {
				return errors.New("connection refused")
			}
			return nil
		}
		r.Event(web, "Normal", "x", "y")
		time.Sleep(2*interval + time.Second)
		synctest.Wait()
		if e := s.only(t); e.Count != 1 || len(s.seen) != 3 {
			t.Errorf("count %d after %d requests", e.Count, len(s.seen))
		}
		clear(s.events)
		s.seen = nil
		s.fail = func(*http.Request) error { return errors.New("connection refused") }
		r.Event(web, "Normal", "other", "y")
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(s.seen) != attempts {
			t.Errorf("gave up after %d requests, want %d", len(s.seen), attempts)
		}
	})
}

func TestNeverBlocks(t *testing.T) {
	c, err := client.New(client.Config{Server: "http://x", Transport: &store{}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Client: c, Component: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for range queueSize + 1 { // Run does not take them off the queue
		r.Event(web, "Normal", "x", "y")
	}
	if len(r.queue) != queueSize {
		t.Errorf("%d are queued", len(r.queue))
	}
	r.Event(&corev1.Secret{}, "Normal", "x", "y") // of unknown kind: logged, no panic
	if _, err := New(Config{}); err == nil {
		t.Error("an empty config is accepted")
	}
}

func TestReference(t *testing.T) {
	for want, object := range map[string]runtime.Object{
		"v1 Pod":             &corev1.Pod{},
		"apps/v1 Deployment": &appsv1.Deployment{},
		"apps/v1 ReplicaSet": &appsv1.ReplicaSet{},
		"x.io/v2 Thing":      &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "x.io/v2", Kind: "Thing"}},
	} {
		ref, err := reference(object)
		if got := ref.APIVersion + " " + ref.Kind; got != want || err != nil {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
	}
}

// After ten minutes without events the correlator is empty; before, it keeps everything.
func TestForgetsWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, stop := start(t)
		for range remembered {
			r.Event(web, corev1.EventTypeNormal, "Pulled", "again")
			synctest.Wait()
		}
		time.Sleep(forget - time.Second)
		r.Event(web, corev1.EventTypeWarning, "Failed", "once")
		time.Sleep(forget - time.Second)
		r.Event(web, corev1.EventTypeWarning, "Failed", "once")
		synctest.Wait()
		if len(s.events) != 2 {
			t.Errorf("%d events, want 2", len(s.events))
		}
		time.Sleep(forget + time.Second)
		r.Event(web, corev1.EventTypeWarning, "Failed", "once")
		synctest.Wait()
		if len(s.events) != 3 {
			t.Errorf("%d events, want 3", len(s.events))
		}
		stop()
		synctest.Wait()
		if n := len(r.known.events.entries); n != 2 {
			t.Errorf("%d entries after ten minutes of rest", n)
		}
	})
}
