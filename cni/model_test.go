package cni_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/cni"
)

// world is the state of plugins that fail at random. It belongs to one goroutine.
type world struct {
	rng *rand.Rand
	// made has "plugin container" for what an ADD made and no DEL took away.
	made map[string]bool
	// good lets nothing fail.
	good bool
}

func (w *world) exec(_ context.Context, c cni.Call) ([]byte, error) {
	thing := c.Type + " " + c.ContainerID
	fails := !w.good && w.rng.IntN(5) == 0
	switch c.Command {
	case cni.CmdAdd:
		if w.made[thing] {
			return nil, cni.Errorf(cni.CodePlugin, "second ADD for %s", thing)
		}
		w.made[thing] = !fails || w.rng.IntN(2) == 0 // a failed ADD may leave something
	case cni.CmdDel:
		if !fails {
			delete(w.made, thing)
		}
	}
	if !w.made[thing] {
		delete(w.made, thing)
	}
	if fails {
		return nil, []error{errors.New("no luck"), cni.Errorf(cni.CodeTryAgain, "soon")}[w.rng.IntN(2)]
	}
	return []byte(`{}`), nil
}

// TestModel attaches and detaches at random and checks that nothing that was
// made is ever unknown: what is not on record is not there.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		w := &world{rng: rand.New(rand.NewPCG(seed, 0)), made: make(map[string]bool)}
		l, err := cni.ParseList([]byte(`{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"a"},{"type":"b"},{"type":"c"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		invoker, err := cni.New(cni.Config{Dir: t.TempDir(), Executor: cni.ExecutorFunc(w.exec), Attempts: 2})
		if err != nil {
			t.Fatal(err)
		}
		count := func(id string) int {
			n := 0
			for _, plugin := range []string{"a ", "b ", "c "} {
				if w.made[plugin+id] {
					n++
				}
			}
			return n
		}
		attached := make(map[string]bool)
		for step := range 3000 {
			id := fmt.Sprint("c", w.rng.IntN(4))
			r := cni.RuntimeConfig{ContainerID: id, NetNS: "/ns", IfName: "eth0"}
			switch w.rng.IntN(3) {
			case 0:
				_, err := invoker.Add(t.Context(), l, r)
				if err == nil && attached[id] {
					t.Fatalf("step %d: a second add of %s", step, id)
				}
				if err == nil {
					attached[id] = true
				}
				if attached[id] && count(id) != 3 {
					t.Fatalf("step %d: %s is attached, by %v", step, id, w.made)
				}
			case 1:
				if invoker.Del(t.Context(), l, r) == nil && count(id) > 0 {
					t.Fatalf("step %d: %s is detached, but %v is left", step, id, w.made)
				}
				attached[id] = false
			case 2: // what is on record is all there is
				w.good = true
				var valid []cni.Attachment
				for id, ok := range attached {
					if ok {
						valid = append(valid, cni.Attachment{ContainerID: id, IfName: "eth0"})
					}
				}
				if err := invoker.GC(t.Context(), l, valid); err != nil {
					t.Fatalf("step %d: gc: %v", step, err)
				}
				w.good = false
				if len(w.made) != 3*len(valid) {
					t.Fatalf("step %d: after gc with %v there is %v", step, valid, w.made)
				}
			}
		}
	})
}
