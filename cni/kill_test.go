package cni

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// kill ends a call of the invoker in the middle, as the kernel would: nothing after it runs, but locks
// are released.
type kill struct{}

// TestInvokerKilledAtAnyStep: whatever is the last that an invoker does, before or after a write or a
// plugin's call, what a plugin made is on record, and GC leaves what is attached and nothing else.
func TestInvokerKilledAtAnyStep(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir, made := t.TempDir(), map[string]bool{}
	l, err := ParseList([]byte(`{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"a"},{"type":"b"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	// call makes a call of an invoker of its own, which is killed at a step if it has so many.
	call := func(last int, f func(*Invoker) error) (killed bool, err error) {
		step := func() {
			if last--; last == 0 {
				panic(kill{})
			}
		}
		i, err := New(Config{Dir: dir, Executor: ExecutorFunc(func(_ context.Context, c Call) ([]byte, error) {
			step()
			switch thing := c.Type + " " + c.ContainerID; c.Command {
			case CmdAdd:
				if made[thing] {
					t.Fatalf("second ADD for %s", thing)
				}
				made[thing] = true
			case CmdDel:
				delete(made, thing)
			}
			step()
			return []byte(`{}`), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		i.records.step = step
		defer func() {
			r := recover()
			if _, killed = r.(kill); r != nil && !killed {
				panic(r)
			}
		}()
		return false, f(i)
	}
	attached := map[string]bool{}
	for step := range 1500 {
		id, last := fmt.Sprint("c", rng.IntN(5)), rng.IntN(12)
		r := RuntimeConfig{ContainerID: id, NetNS: "/ns", IfName: "eth0"}
		switch rng.IntN(4) {
		case 0, 1:
			if killed, err := call(last, func(i *Invoker) error { _, err := i.Add(t.Context(), l, r); return err }); !killed && err == nil {
				attached[id] = true
			}
		case 2:
			killed, err := call(last, func(i *Invoker) error { return i.Del(t.Context(), l, r) })
			if delete(attached, id); !killed && (err != nil || made["a "+id] || made["b "+id]) {
				t.Fatalf("step %d: del: %v, left %v", step, err, made)
			}
		case 3:
			valid := []Attachment{}
			for id := range attached {
				valid = append(valid, Attachment{id, "eth0"})
			}
			if killed, err := call(last, func(i *Invoker) error { return i.GC(t.Context(), l, valid) }); !killed && (err != nil || len(made) != 2*len(valid)) {
				t.Fatalf("step %d: gc of all but %v: %v, left %v", step, valid, err, made)
			}
		}
		known, err := records{dir: dir}.list("net")
		if err != nil {
			t.Fatal(err)
		}
		for thing := range made {
			if !slices.Contains(known, Attachment{thing[len("a "):], "eth0"}) {
				t.Fatalf("step %d: %s is there and not on record", step, thing)
			}
		}
		for id := range attached {
			if !made["a "+id] || !made["b "+id] {
				t.Fatalf("step %d: %s is attached by %v", step, id, made)
			}
		}
	}
}
