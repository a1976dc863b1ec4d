package gang_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule/gang"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestModel lets pods of groups come and go while the room changes. Whenever pods of a group were bound, so
// many of it are bound as must start together; and once the room is large enough for each group alone, each
// that is complete starts.
func TestModel(t *testing.T) {
	first := rand.Uint64()
	for seed := first; seed < first+8; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run(t, 4, nil, func(w *world) { (&model{world: w, rng: rand.New(rand.NewPCG(seed, 0))}).walk() })
			})
		})
	}
}

const largest = 6 // pods of a group that must start together

// model makes random changes and checks what is bound.
type model struct {
	*world
	rng *rand.Rand
	// before has how many pods of each group were bound at the last check.
	before map[string]int
	made   int
}

// minimum returns how many pods of a group must start together.
func minimum(group string) int { n, _ := strconv.Atoi(group[1:]); return n%largest + 1 }

// check compares the pods that are bound now with those at the last check.
func (m *model) check(what string) {
	m.Helper()
	synctest.Wait()
	now := m.started()
	for group, n := range now {
		if n > m.before[group] && n < minimum(group) {
			m.Fatalf("%s: %d pods of %s are bound, which needs %d", what, n, group, minimum(group))
		}
	}
	m.before = now
}

func (m *model) walk() {
	for range 150 {
		group := fmt.Sprint("g", m.rng.IntN(8))
		what := ""
		switch m.rng.IntN(7) {
		case 0, 1, 2:
			m.made++
			p := pod(fmt.Sprintf("%s-%d", group, m.made), group, fmt.Sprint(minimum(group)))
			p.CreationTimestamp = metav1.NewTime(time.Now())
			p.Spec.Priority = new(int32(m.rng.IntN(3)))
			m.pods.Put(p)
			what = "new " + p.Name
		case 3:
			if p := m.any(); p != nil {
				m.pods.Delete(localcache.KeyOf(p))
				what = "deleted " + p.Name
			}
		case 4:
			room := int64(m.rng.IntN(12))
			m.nodes.Put(node("n", room))
			what = fmt.Sprint("room for ", room)
		case 5:
			if p := m.any(); p != nil && p.Spec.NodeName != "" {
				ended := p.DeepCopy()
				ended.Status.Phase = corev1.PodFailed
				m.pods.Put(ended)
				m.check("ended " + p.Name)
				m.pods.Delete(localcache.KeyOf(p))
				what = "deleted " + p.Name
			}
		case 6:
			again := time.Duration(m.rng.IntN(70)) * time.Second
			m.check("before a while")
			for range 10 {
				time.Sleep(again / 10)
				m.check("after a while")
			}
		}
		m.check(what)
	}
	m.allStart()
}

// any returns a random pod, or nil.
func (m *model) any() *corev1.Pod {
	var one *corev1.Pod
	n := 0
	for p := range m.pods.All() {
		if n++; m.rng.IntN(n) == 0 {
			one = p
		}
	}
	return one
}

// allStart checks that each complete group starts when it may, if those that have started end.
func (m *model) allStart() {
	m.nodes.Put(node("n", largest))
	for {
		exist, started := m.left(), m.started()
		for p := range m.pods.All() {
			group := p.Labels[gang.NameLabel]
			if exist[group] < minimum(group) || started[group] > 0 {
				m.pods.Delete(localcache.KeyOf(p)) // it cannot start, or has
			}
		}
		m.before = nil
		m.check("all that started have gone")
		if len(m.left()) == 0 {
			return
		}
		time.Sleep(15 * time.Minute)
		m.check("the end")
		if len(m.started()) == 0 {
			m.Fatalf("none has started of %v", m.left())
		}
	}
}

// left returns how many pods of each group there are.
func (m *model) left() map[string]int {
	left := map[string]int{}
	for p := range m.pods.All() {
		left[p.Labels[gang.NameLabel]]++
	}
	return left
}

// TestFailures lets bindings fail at random. In the end all pods of all groups are bound.
func TestFailures(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		run(t, 100, nil, func(w *world) {
			w.mu.Lock()
			w.fail = func(*corev1.Pod) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if rng.IntN(2) == 0 {
					return errors.New("no luck")
				}
				return nil
			}
			w.mu.Unlock()
			for i := range 60 {
				p := pod(fmt.Sprint("p", i), fmt.Sprint("g", i%6), "10")
				p.UID = types.UID(p.Name)
				w.pods.Put(p)
			}
			time.Sleep(15 * time.Minute)
			synctest.Wait()
			for group, n := range w.started() {
				if n != 10 {
					t.Errorf("%d pods of %s are bound", n, group)
				}
			}
			if len(w.started()) != 6 {
				t.Errorf("started: %v", w.started())
			}
		})
	})
}
