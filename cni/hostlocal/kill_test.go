package hostlocal

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/planekit/planekit/cni"
)

// kill ends a call in the middle, as the kernel would: nothing after it runs, but locks are released.
type kill struct{}

// life is a network whose calls are killed at any change of the disk, and whose addresses the
// reference plugin also takes and frees.
type life struct {
	*testing.T
	rng *rand.Rand
	dir string
	// given are the addresses that a successful ADD returned, and that no DEL has freed.
	given map[cni.Attachment][]netip.Addr
	// torn are the attachments whose last call was killed.
	torn map[cni.Attachment]bool
}

// call runs one call of a process of its own. With a step from 1 on, it is killed there, if there are so
// many.
func (l *life) call(step int, f func(*network) error) (killed bool, err error) {
	sets, err := newSets([][]Range{
		{{Subnet: netip.MustParsePrefix("10.62.1.0/27")}, {Subnet: netip.MustParsePrefix("10.62.2.0/28")}},
		{{Subnet: netip.MustParsePrefix("fd62::/122")}},
	})
	if err != nil {
		l.Fatal(err)
	}
	n := &network{sets: sets, pool: pool{dir: l.dir, step: func() {
		if step--; step == 0 {
			panic(kill{})
		}
	}}}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case kill:
			killed, err = true, nil
		default:
			panic(r)
		}
	}()
	return false, n.locked(l.Context(), func() error { return f(n) })
}

func (l *life) add(who cni.Attachment, step int) {
	var result cni.Result
	killed, err := l.call(step, func(n *network) error { return n.add(who, &result) })
	switch {
	case killed:
		l.torn[who] = true
		return
	case err != nil:
		return // full, or the attachment exists
	case len(l.given[who]) > 0:
		l.Fatalf("%v was added twice", who)
	}
	for _, ip := range result.IPs {
		for other, all := range l.given {
			if slices.Contains(all, ip.Address.Addr()) {
				l.Fatalf("%v of %v was given to %v", ip.Address, other, who)
			}
		}
		l.given[who] = append(l.given[who], ip.Address.Addr())
	}
	if len(result.IPs) != 2 {
		l.Fatalf("%v got %v", who, result.IPs)
	}
	delete(l.torn, who)
}

func (l *life) del(who cni.Attachment, step int) {
	killed, err := l.call(step, func(n *network) error { return n.release(who) })
	if err != nil {
		l.Fatalf("del %v: %v", who, err)
	}
	delete(l.given, who) // the container is gone in any case
	if delete(l.torn, who); killed {
		l.torn[who] = true
	}
}

func (l *life) gc(step int) {
	valid := slices.Collect(maps.Keys(l.given))
	killed, err := l.call(step, func(n *network) error { return n.keep(valid) })
	if err != nil {
		l.Fatalf("gc: %v", err)
	}
	if !killed {
		clear(l.torn)
	}
}

// reference does what the reference plugin does on disk, which knows no index.
func (l *life) reference(who cni.Attachment) {
	if all := l.given[who]; len(all) > 0 {
		for _, addr := range all {
			if err := os.Remove(filepath.Join(l.dir, addr.String())); err != nil {
				l.Fatal(err)
			}
		}
		delete(l.given, who)
		return
	}
	addr := netip.AddrFrom4([4]byte{10, 62, 1, byte(2 + l.rng.IntN(29))})
	f, err := os.OpenFile(filepath.Join(l.dir, addr.String()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil || l.torn[who] {
		return
	}
	defer f.Close()
	if _, err := f.WriteString(content(who)); err != nil {
		l.Fatal(err)
	}
	l.given[who] = []netip.Addr{addr}
}

// check compares the files with what was given: nothing given is lost, and what else is there is
// torn. The index that a call would use says the same.
func (l *life) check(step int) {
	l.Helper()
	onDisk := map[netip.Addr]cni.Attachment{}
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		l.Fatal(err)
	}
	for _, e := range entries {
		if addr, err := netip.ParseAddr(e.Name()); err == nil {
			data, err := os.ReadFile(filepath.Join(l.dir, e.Name()))
			if err != nil {
				l.Fatal(err)
			}
			if len(data) > 0 { // free otherwise
				onDisk[addr] = parseOwner(string(data))
			}
		}
	}
	p := pool{dir: l.dir}
	if err := p.load(); err != nil || !maps.Equal(p.owners, onDisk) {
		l.Fatalf("step %d: a call would see %v, %v; the files are %v", step, p.owners, err, onDisk)
	}
	for who, all := range l.given {
		for _, addr := range all {
			if onDisk[addr] != who {
				l.Fatalf("step %d: %v of %v has the owner %v", step, addr, who, onDisk[addr])
			}
			delete(onDisk, addr)
		}
	}
	for addr, who := range onDisk {
		if !l.torn[who] {
			l.Fatalf("step %d: %v of %v is leaked", step, addr, who)
		}
	}
}

// TestKilledAtAnyStep: whatever change of the disk is a call's last, no address is given twice, and GC
// leaves those that were given.
func TestKilledAtAnyStep(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := &life{
		T: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: filepath.Join(t.TempDir(), "net"),
		given: map[cni.Attachment][]netip.Addr{}, torn: map[cni.Attachment]bool{},
	}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for step := range 400 {
		who := cni.Attachment{ContainerID: fmt.Sprint("c", l.rng.IntN(30)), IfName: "eth0"}
		last := 0
		if l.rng.IntN(2) == 0 {
			last = 1 + l.rng.IntN(9)
		}
		switch op := l.rng.IntN(12); {
		case op < 6:
			l.add(who, last)
		case op < 9:
			l.del(who, last)
		case op < 11:
			l.reference(who)
		default:
			l.gc(last)
		}
		l.check(step)
	}
	l.gc(0)
	l.check(-1)
}
