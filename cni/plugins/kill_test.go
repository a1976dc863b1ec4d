//go:build linux

package plugins_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/chain"
)

var attachments = flag.Int("attachments", 24, "containers that TestManyKilledAtOnce adds and deletes at once")

// ledger is the model of TestManyKilledAtOnce.
type ledger struct {
	mu sync.Mutex
	// given are the addresses of the attached containers, by container.
	given map[string]string
	// namespaces has the namespace of each container; fixed.
	namespaces map[string]string
	// torn are the containers whose last call was killed.
	torn map[string]bool
}

func (c *ledger) set(id, address string, torn bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.given, id)
	if c.torn[id] = torn; address == "" {
		return nil
	}
	for other, has := range c.given {
		if has == address {
			return fmt.Errorf("%s was given to %s and %s", address, other, id)
		}
	}
	c.given[id] = address
	return nil
}

// TestManyKilledAtOnce: containers are added and deleted at once, each call by a process of planekit-cni
// that may be killed at any moment. No address is given twice. After GC there is what was given and
// nothing else, and after the last DEL nothing. -args -attachments 500 is the long form.
func TestManyKilledAtOnce(t *testing.T) {
	onHost(t, func(h *host) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		network := h.network(1, true)
		network.PodCIDRs[0] = netip.MustParsePrefix("10.62.16.0/20")
		model, self := &ledger{given: map[string]string{}, namespaces: map[string]string{}, torn: map[string]bool{}}, here()
		var running sync.WaitGroup
		for n := range *attachments {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			id, ns := fmt.Sprint("pod", n), h.namespace()
			model.namespaces[id] = ns
			running.Go(func() {
				h.inside(self, func() error {
					for range 3 {
						if err := h.killedCall(model, network, random, id, ns); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
		running.Wait()
		h.afterKills(model, network)
	})
}

// killedCall adds a container, or deletes it if it may be there. A third of the calls is killed.
func (h *host) killedCall(m *ledger, network chain.Network, random *rand.Rand, id, ns string) error {
	m.mu.Lock()
	command := cni.CmdAdd
	if m.given[id] != "" || m.torn[id] {
		command = cni.CmdDel
	}
	delete(m.given, id) // from now on another may have its address
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	if random.IntN(3) == 0 {
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), time.Duration(random.IntN(120))*time.Millisecond)
	}
	defer cancel()
	out, err := cni.Processes{}.Exec(ctx, h.chainCall(network, command, id, ns, ""))
	switch {
	case ctx.Err() != nil:
		return m.set(id, "", true)
	case err != nil:
		return fmt.Errorf("%s of %s: %w", command, id, err)
	case command == cni.CmdDel:
		return m.set(id, "", false)
	}
	result, err := cni.ParseResult(out, "")
	if err != nil {
		return err
	}
	return m.set(id, result.IPs[0].Address.Addr().String(), false)
}

// chainCall is a call of planekit-cni for a network.
func (h *host) chainCall(network chain.Network, command, id, ns, more string) cni.Call {
	delegates := fmt.Sprintf(`{"type":"bridge","bridge":%q,"isDefaultGateway":true,"hairpinMode":true,"ipMasq":true,"clusterCIDR":"10.62.0.0/16","lockDir":%q,
		"ipam":{"type":"host-local","subnet":%q,"dataDir":%q}}`, network.Bridge, network.DataDir, network.PodCIDRs[0], filepath.Join(network.DataDir, "networks"))
	return cni.Call{
		Command: command, Type: "planekit-cni", Path: []string{h.bin}, ContainerID: id, NetNS: ns, IfName: "eth0",
		Stdin: fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"many","type":"planekit-cni","dir":%q,"timeoutSeconds":120,"delegates":[%s]%s}`, network.DataDir, delegates, more),
	}
}

// afterKills compares the kernel and the disk with the model, by way of GC.
func (h *host) afterKills(m *ledger, network chain.Network) {
	h.Helper()
	gc := func(valid []string) {
		var all []string
		for _, id := range valid {
			all = append(all, fmt.Sprintf(`{"containerID":%q,"ifname":"eth0"}`, id))
		}
		call := h.chainCall(network, cni.CmdGC, "", "", `,"cni.dev/valid-attachments":[`+strings.Join(all, ",")+`]`)
		if _, err := (cni.Processes{}).Exec(h.Context(), call); err != nil {
			h.Errorf("gc: %v", err)
		}
	}
	compare := func(when string, given map[string]string) {
		h.Helper()
		var want []string
		for id, address := range given {
			want = append(want, address+" "+id)
		}
		var have []string
		files, err := filepath.Glob(filepath.Join(network.DataDir, "networks", "many", "10.*"))
		if err != nil {
			h.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				h.Fatal(err)
			}
			have = append(have, filepath.Base(f)+" "+strings.Fields(string(data))[0])
		}
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(have, want) {
			h.Errorf("%s, addresses are %q, want %q", when, have, want)
		}
		if links := h.links("veth"); len(links) != len(want) {
			h.Errorf("%s, interfaces are %q of %d", when, links, len(want))
		}
		records, err := filepath.Glob(filepath.Join(network.DataDir, "results", "many", "*"))
		if err != nil || len(records) != len(want) {
			h.Errorf("%s, records are %q of %d; %v", when, records, len(want), err)
		}
		if rules := h.rules(); len(rules) != min(len(want), 1) {
			h.Errorf("%s, rules are %q", when, rules)
		}
	}
	torn := 0
	for _, is := range m.torn {
		if is {
			torn++
		}
	}
	h.Logf("%d attached, %d torn", len(m.given), torn)
	var valid []string
	for id := range m.given {
		valid = append(valid, id)
	}
	gc(valid)
	compare("after GC", m.given)
	for id := range m.given {
		if _, err := (cni.Processes{}).Exec(h.Context(), h.chainCall(network, cni.CmdDel, id, m.namespaces[id], "")); err != nil {
			h.Errorf("del %s: %v", id, err)
		}
	}
	gc(nil)
	compare("after all", nil)
}
