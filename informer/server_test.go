package informer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/informer"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object struct {
	key, uid string
	revision int
	group    int
}

func (o *object) String() string { return fmt.Sprintf("%s@%d", o.key, o.revision) }

type entry struct {
	revision int
	object   *object
	removed  bool
}

// server is a store with history. A test can break its Sync, make it forget old history, and make
// it repeat old events.
type server struct {
	mu        sync.Mutex
	objects   map[string]*object
	history   []entry
	revision  int
	compacted int
	changed   chan struct{}
	cut       chan struct{}
	refuse    int
	lists     int
	syncs     []string
	random    *rand.Rand
}

func newServer() *server {
	return &server{objects: map[string]*object{}, changed: make(chan struct{}), cut: make(chan struct{})}
}

func (s *server) write(key string, removed bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, exists := s.objects[key]
	if removed && !exists {
		return s.revision
	}
	s.revision++
	o := &object{key: key, revision: s.revision, group: s.revision % 5}
	switch {
	case removed:
		o.uid = known.uid
		delete(s.objects, key)
	case exists:
		o.uid = known.uid
		s.objects[key] = o
	default:
		o.uid = strconv.Itoa(s.revision)
		s.objects[key] = o
	}
	s.history = append(s.history, entry{s.revision, o, removed})
	s.bell()
	return s.revision
}

func (s *server) bell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) put(key string) int    { return s.write(key, false) }
func (s *server) remove(key string) int { return s.write(key, true) }

// elsewhere uses a revision that this resource never reports.
func (s *server) elsewhere() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
}

func (s *server) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

func (s *server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.revision
}

// at returns the objects as of a revision.
func (s *server) at(revision int) []*object {
	state := map[string]*object{}
	for _, e := range s.history {
		if e.revision > revision {
			break
		}
		if e.removed {
			delete(state, e.object.key)
		} else {
			state[e.object.key] = e.object
		}
	}
	var list []*object
	for _, o := range state {
		list = append(list, o)
	}
	return list
}

var errCut = errors.New("connection cut")

func (s *server) Sync(ctx context.Context, from string, sink informer.Sink[*object]) error {
	s.mu.Lock()
	s.syncs = append(s.syncs, from)
	cut := s.cut
	if s.refuse > 0 {
		s.refuse--
		s.mu.Unlock()
		return errors.New("connection refused")
	}
	after, err := strconv.Atoi(from)
	if err != nil || after < s.compacted {
		s.lists++
		after = s.revision
		if s.random != nil && s.random.IntN(2) == 0 {
			after = s.random.IntN(after + 1) // a lagging replica
		}
		list := s.at(after)
		way := 0
		if s.random != nil {
			way = s.random.IntN(3)
		}
		s.mu.Unlock()
		switch pieces := sink.(informer.ListSink[*object]); way {
		case 0:
			sink.Replace(strconv.Itoa(after), list)
		case 1: // in pieces, at the second attempt
			pieces.Begin()
			for _, o := range list[:len(list)/2] {
				pieces.Item(o)
			}
			pieces.Begin()
			for _, o := range list {
				if !pieces.Unchanged(o.key, strconv.Itoa(o.revision)) {
					pieces.Item(o)
				}
			}
			pieces.End(strconv.Itoa(after))
		case 2: // cut off in the middle
			pieces.Begin()
			for _, o := range list {
				pieces.Item(o)
			}
			return errCut
		}
		s.mu.Lock()
	} else if s.random != nil {
		after = s.random.IntN(after + 1) // repeats old events
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		var news []entry
		for _, e := range s.history {
			if e.revision > after {
				news = append(news, e)
			}
		}
		now, changed := s.revision, s.changed
		s.mu.Unlock()
		for _, e := range news {
			if e.removed {
				sink.Remove(strconv.Itoa(e.revision), e.object)
			} else {
				sink.Put(strconv.Itoa(e.revision), e.object)
			}
		}
		after = now
		sink.Bookmark(strconv.Itoa(now))
		select {
		case <-changed:
		case <-cut:
			return errCut
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func byGroup(o *object) []int { return []int{o.group} }

func byNamespace(o *object) []string {
	namespace, _, namespaced := strings.Cut(o.key, "/")
	if !namespaced {
		return []string{""}
	}
	return []string{namespace}
}

func newInformer(t testing.TB, source informer.Source[*object]) *informer.Informer[*object] {
	t.Helper()
	inf, err := informer.New(informer.Config[*object]{
		Source:   source,
		Key:      func(o *object) string { return o.key },
		Revision: func(o *object) string { return strconv.Itoa(o.revision) },
		UID:      func(o *object) string { return o.uid },
	})
	if err != nil {
		t.Fatal(err)
	}
	return inf
}

// start runs inf until the test, or the synctest bubble, ends.
func start(t testing.TB, inf *informer.Informer[*object]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- inf.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}
