//go:build linux

package plugins_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/portmap"
)

// mappings is the model: the attachments with mapped ports, for certain.
type mappings struct {
	mu    sync.Mutex
	there map[string]bool
	// torn are those whose last call was killed: they may be there.
	torn map[string]bool
}

func (m *mappings) set(id string, there, torn bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.there[id], m.torn[id] = there, torn
}

// TestManyPortsAtOnce: 200 attachments are added and deleted at once by processes, of which some are
// killed at any moment. The kernel's tables are then those of the model, and none after a last DEL.
func TestManyPortsAtOnce(t *testing.T) {
	const attachments, steps = 200, 2
	onHost(t, func(h *host) {
		h.run("ip", "link", "add", "map0", "type", "bridge")
		h.run("ip", "address", "add", "10.88.0.1/16", "dev", "map0")
		h.run("ip", "link", "set", "map0", "up")
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		model, self, locks := &mappings{there: map[string]bool{}, torn: map[string]bool{}}, here(), h.TempDir()
		call := func(id int, command string) cni.Call {
			return cni.Call{
				Command: command, Type: "portmap", Path: []string{h.bin}, ContainerID: fmt.Sprint("pod", id), NetNS: "/ns", IfName: "eth0",
				Stdin: fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"many","type":"portmap","lockDir":%q,
					"runtimeConfig":{"portMappings":[{"hostPort":%d,"containerPort":80,"protocol":"tcp"},{"hostPort":%[2]d,"containerPort":53,"protocol":"udp"}]},
					"prevResult":{"cniVersion":"1.0.0","ips":[{"address":"10.88.1.%d/16"},{"address":"fd00::%[3]x/64"}]}}`, locks, 20000+id, id),
			}
		}
		var running sync.WaitGroup
		for id := range attachments {
			random := rand.New(rand.NewPCG(seed, uint64(id)))
			running.Go(func() {
				h.inside(self, func() error {
					for range steps {
						command := []string{cni.CmdAdd, cni.CmdDel}[random.IntN(2)]
						if random.IntN(3) == 0 {
							ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(60))*time.Millisecond)
							_, err := cni.Processes{}.Exec(ctx, call(id, command))
							cancel()
							model.set(fmt.Sprint("pod", id), command == cni.CmdAdd, err != nil)
							continue
						}
						if _, err := portmap.Plugin().Exec(context.Background(), call(id, command), nil); err != nil {
							return fmt.Errorf("pod%d %s: %w", id, command, err)
						}
						model.set(fmt.Sprint("pod", id), command == cni.CmdAdd, false)
					}
					return nil
				})
			})
		}
		running.Wait()
		h.compareTables(model, func(id string) bool {
			_, err := portmap.Plugin().Exec(t.Context(), check(call, id), nil)
			return err == nil
		})
		for id := range attachments {
			if _, err := portmap.Plugin().Exec(t.Context(), call(id, cni.CmdDel), nil); err != nil {
				t.Error(err)
			}
		}
		if left := h.tables(); len(left) > 0 || h.routeLocalnet("map0") != "0" {
			t.Errorf("left behind: %v, route_localnet %s", left, h.routeLocalnet("map0"))
		}
	})
}

func check(call func(int, string) cni.Call, id string) cni.Call {
	var n int
	_, _ = fmt.Sscanf(id, "pod%d", &n)
	return call(n, cni.CmdCheck)
}

// compareTables checks that the kernel has a complete table of each attachment that
// the model has, and of no other but those which are torn.
func (h *host) compareTables(m *mappings, complete func(id string) bool) {
	h.Helper()
	count := 0
	for id := range m.there {
		switch {
		case m.torn[id]:
			continue
		case m.there[id]:
			count++
		}
		if complete(id) != m.there[id] {
			h.Errorf("%s is complete: %v, want %v", id, !m.there[id], m.there[id])
		}
	}
	all := h.tables()
	for name, chains := range all {
		if chains != 5 {
			h.Errorf("table %s has %d chains", name, chains)
		}
	}
	torn := 0
	for _, is := range m.torn {
		if is {
			torn++
		}
	}
	if len(all) < count || len(all) > count+torn {
		h.Errorf("%d tables of %d attachments and %d that are torn", len(all), count, torn)
	}
	h.Logf("%d attachments are there, %d are torn, of %d", count, torn, len(m.there))
}
