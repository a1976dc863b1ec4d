package hostlocal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	"github.com/planekit/planekit/cni/hostlocal"
	"github.com/planekit/planekit/cni/skel"
)

// call makes one call of the plugin, as its own process would.
func call(cmd, id, ifName, conf string) (*cni.Result, error) {
	return callContext(context.Background(), cmd, id, ifName, conf, "")
}

func callContext(ctx context.Context, cmd, id, ifName, conf, args string) (*cni.Result, error) {
	env := map[string]string{
		"CNI_COMMAND": cmd, "CNI_CONTAINERID": id, "CNI_IFNAME": ifName, "CNI_NETNS": "/run/netns/x", "CNI_ARGS": args,
	}
	var stdout, stderr bytes.Buffer
	code := hostlocal.Plugin().Main(skel.Process{
		Context: ctx,
		Getenv:  func(k string) string { return env[k] },
		Stdin:   strings.NewReader(conf), Stdout: &stdout, Stderr: &stderr,
	})
	if code != 0 {
		e := new(cni.Error)
		if err := json.Unmarshal(stdout.Bytes(), e); err != nil {
			return nil, fmt.Errorf("exit code %d, %q", code, stdout.Bytes())
		}
		return nil, e
	}
	if cmd != cni.CmdAdd {
		return nil, nil
	}
	return cni.ParseResult(stdout.Bytes(), "")
}

// conf renders a configuration; ipam is without its braces.
func conf(dir, ipam string, more ...string) string {
	more = append(more, fmt.Sprintf(`"ipam":{"type":"host-local","dataDir":%q,%s}`, dir, ipam))
	return `{"cniVersion":"1.1.0","name":"net","type":"p",` + strings.Join(more, ",") + `}`
}

func addresses(r *cni.Result) []string {
	var all []string
	for _, ip := range r.IPs {
		all = append(all, ip.Address.String()+" via "+ip.Gateway.String())
	}
	return all
}

func TestAllocation(t *testing.T) {
	for _, test := range []struct {
		name, ipam, more, args string
		want                   []string
		fails                  string
	}{
		{name: "subnet", ipam: `"subnet":"10.1.2.0/24"`, want: []string{"10.1.2.2/24 via 10.1.2.1"}},
		{name: "range", ipam: `"subnet":"10.1.2.0/24","rangeStart":"10.1.2.10","gateway":"10.1.2.10"`, want: []string{"10.1.2.11/24 via 10.1.2.10"}},
		{name: "dual stack", ipam: `"ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"fd00::/64"}]]`, want: []string{"10.1.2.2/24 via 10.1.2.1", "fd00::2/64 via fd00::1"}},
		{name: "second range of a set", ipam: `"ranges":[[{"subnet":"10.1.2.0/30"},{"subnet":"10.1.3.0/30"}]]`, want: []string{"10.1.2.2/30 via 10.1.2.1"}},
		{name: "wanted", ipam: `"subnet":"10.1.2.0/24"`, more: `"runtimeConfig":{"ips":["10.1.2.77/24"]}`, want: []string{"10.1.2.77/24 via 10.1.2.1"}},
		{name: "ranges of the runtime", ipam: `"routes":[]`, more: `"runtimeConfig":{"ipRanges":[[{"subnet":"10.9.0.0/24"}]]}`, want: []string{"10.9.0.2/24 via 10.9.0.1"}},
		{name: "wanted elsewhere", ipam: `"subnet":"10.1.2.0/24"`, more: `"runtimeConfig":{"ips":["10.7.7.7"]}`, fails: "are in no range"},
		{name: "wanted is no address", ipam: `"subnet":"10.1.2.0/24"`, more: `"runtimeConfig":{"ips":["x"]}`, fails: "runtimeConfig.ips"},
		{name: "requested by argument", ipam: `"subnet":"10.1.2.0/24"`, args: "IgnoreUnknown=1;IP=10.1.2.78", want: []string{"10.1.2.78/24 via 10.1.2.1"}},
		{name: "requested by convention, of two families", ipam: `"ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"fd00::/64"}]]`,
			more: `"args":{"cni":{"ips":["fd00::7","10.1.2.79/24"]}}`, want: []string{"10.1.2.79/24 via 10.1.2.1", "fd00::7/64 via fd00::1"}},
		{name: "requested in three ways", ipam: `"ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"fd00::/64"}]]`, args: "IP=10.1.2.80",
			more: `"args":{"cni":{"ips":["10.1.2.80/24"]}},"runtimeConfig":{"ips":["10.1.2.80","fd00::8"]}`, want: []string{"10.1.2.80/24 via 10.1.2.1", "fd00::8/64 via fd00::1"}},
		{name: "two of one range", ipam: `"subnet":"10.1.2.0/24"`, args: "IP=10.1.2.81", more: `"runtimeConfig":{"ips":["10.1.2.82"]}`, fails: "are in no range"},
		{name: "the gateway's", ipam: `"subnet":"10.1.2.0/24"`, args: "IP=10.1.2.1", fails: "are in no range"},
		{name: "an argument that is no address", ipam: `"subnet":"10.1.2.0/24"`, args: "IP=10.1.2", fails: "CNI_ARGS: IP"},
		{name: "a convention that is no address", ipam: `"subnet":"10.1.2.0/24"`, more: `"args":{"cni":{"ips":["-"]}}`, fails: "args.cni.ips"},
		{name: "no ranges", ipam: `"ranges":[]`, fails: "no ranges"},
		{name: "empty set", ipam: `"ranges":[[]]`, fails: "empty set"},
		{name: "no subnet", ipam: `"ranges":[[{}]]`, fails: "without a subnet"},
		{name: "too small", ipam: `"subnet":"10.1.2.0/31"`, fails: "too small"},
		{name: "overlap", ipam: `"ranges":[[{"subnet":"10.1.0.0/16"}],[{"subnet":"10.1.2.0/24"}]]`, fails: "overlap"},
		{name: "mixed", ipam: `"ranges":[[{"subnet":"10.1.0.0/16"},{"subnet":"fd00::/64"}]]`, fails: "mixes"},
		{name: "outside", ipam: `"subnet":"10.1.2.0/24","rangeEnd":"10.1.3.1"`, fails: "not within"},
		{name: "no family", ipam: `"subnet":"10.1.2.0/24","rangeStart":"fd00::1"`, fails: "not within"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var more []string
			if test.more != "" {
				more = append(more, test.more)
			}
			r, err := callContext(t.Context(), cni.CmdAdd, "a", "eth0", conf(t.TempDir(), test.ipam, more...), test.args)
			switch {
			case test.fails != "":
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("error %v, want %q", err, test.fails)
				}
			case err != nil:
				t.Error(err)
			case !slices.Equal(addresses(r), test.want):
				t.Errorf("got %v, want %v", addresses(r), test.want)
			}
		})
	}
}

func TestLayoutIsThatOfTheReference(t *testing.T) {
	dir := t.TempDir()
	if _, err := call(cni.CmdAdd, "a", "eth0", conf(dir, `"subnet":"10.1.2.0/24","routes":[{"dst":"0.0.0.0/0"}]`)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"10.1.2.2": "a\r\neth0", "last_reserved_ip.0": "10.1.2.2"} {
		if data, err := os.ReadFile(filepath.Join(dir, "net", name)); err != nil || string(data) != want {
			t.Errorf("%s: %q %v, want %q", name, data, err, want)
		}
	}
}

// TestResolvConf: the resolver's file of the configuration becomes the result's DNS.
func TestResolvConf(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(path, []byte("nameserver 10.96.0.10\nsearch svc.cluster.local\noptions ndots:5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := call(cni.CmdAdd, "a", "eth0", conf(dir, fmt.Sprintf(`"subnet":"10.1.2.0/24","resolvConf":%q`, path)))
	if err != nil || string(r.DNS.ResolvConf()) != "nameserver 10.96.0.10\nsearch svc.cluster.local\noptions ndots:5\n" {
		t.Errorf("ADD = %+v, %v, want the DNS of the file in resolvConf", r, err)
	}
	if _, err := call(cni.CmdAdd, "b", "eth0", conf(dir, `"subnet":"10.1.2.0/24","resolvConf":"/missing"`)); err == nil || !strings.Contains(err.Error(), "resolvConf: open /missing") {
		t.Errorf("a missing file: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "net", "10.*")); len(left) != 1 {
		t.Errorf("addresses %v", left)
	}
}

func TestAddressesRest(t *testing.T) {
	c := conf(t.TempDir(), `"subnet":"10.1.2.0/29"`) // 5 to hand out
	var got []string
	for n := range 7 {
		r, err := call(cni.CmdAdd, "a", "eth0", c)
		if err != nil {
			t.Fatal(n, err)
		}
		got = append(got, r.IPs[0].Address.Addr().String())
		if _, err := call(cni.CmdDel, "a", "eth0", c); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"10.1.2.2", "10.1.2.3", "10.1.2.4", "10.1.2.5", "10.1.2.6", "10.1.2.2", "10.1.2.3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFullAndFailedAddKeepsNothing(t *testing.T) {
	dir := t.TempDir()
	c := conf(dir, `"ranges":[[{"subnet":"10.1.2.0/24"}],[{"subnet":"10.1.3.0/30"}]]`)
	if _, err := call(cni.CmdStatus, "", "", c); err != nil {
		t.Error(err)
	}
	if _, err := call(cni.CmdAdd, "a", "eth0", c); err != nil {
		t.Fatal(err)
	}
	if _, err := call(cni.CmdAdd, "a", "eth0", c); err == nil || !strings.Contains(err.Error(), "already has") {
		t.Errorf("second add: %v", err)
	}
	if _, err := call(cni.CmdAdd, "b", "eth0", c); err == nil || !strings.Contains(err.Error(), "no address is free") {
		t.Errorf("add to a full set: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "net", "10.*")); len(left) != 2 {
		t.Errorf("files %v", left)
	}
	_, err := call(cni.CmdStatus, "", "", c)
	if e, ok := errors.AsType[*cni.Error](err); !ok || e.Code != cni.CodeNotAvailable {
		t.Errorf("status: %v", err)
	}
}

func TestGC(t *testing.T) {
	dir := t.TempDir()
	c := conf(dir, `"subnet":"10.1.2.0/24"`)
	for _, id := range []string{"a", "b"} {
		if _, err := call(cni.CmdAdd, id, "eth0", c); err != nil {
			t.Fatal(err)
		}
	}
	torn := filepath.Join(dir, "net", "10.1.2.99")
	if err := os.WriteFile(torn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := call(cni.CmdGC, "", "", c); err == nil {
		t.Error("gc without a list of what is valid")
	}
	valid := `"cni.dev/valid-attachments":[{"containerID":"b","ifname":"eth0"}]`
	if _, err := call(cni.CmdGC, "", "", conf(dir, `"subnet":"10.1.2.0/24"`, valid)); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "net", "10.*"))
	if len(left) != 1 || filepath.Base(left[0]) != "10.1.2.3" {
		t.Errorf("left %v", left)
	}
	prev := `"prevResult":{"cniVersion":"1.1.0"}`
	if _, err := call(cni.CmdCheck, "b", "eth0", conf(dir, `"subnet":"10.1.2.0/24"`, prev)); err != nil {
		t.Error(err)
	}
	if _, err := call(cni.CmdCheck, "a", "eth0", conf(dir, `"subnet":"10.1.2.0/24"`, prev)); err == nil {
		t.Error("check of what was collected")
	}
}

func TestLockHolderThatHangsIsNotWaitedForForever(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "net"), 0o700); err != nil {
		t.Fatal(err)
	}
	unlock, err := cni.FileLock(t.Context(), filepath.Join(dir, "net", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = callContext(ctx, cni.CmdAdd, "a", "eth0", conf(dir, `"subnet":"10.1.2.0/24"`), "")
	if e, ok := errors.AsType[*cni.Error](err); !ok || e.Code != cni.CodeTryAgain {
		t.Errorf("error %v", err)
	}
}

// TestModel compares a long random run with a map from owners to addresses.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	ipam := `"ranges":[[{"subnet":"10.1.2.0/28"},{"subnet":"10.1.3.0/29"}],[{"subnet":"fd00::/124"}]]`
	const room = 13 + 5 // of the first set; the second has 14
	model := make(map[string][]netip.Prefix)
	for step := range 2000 {
		id := fmt.Sprint("c", rng.IntN(20))
		switch op := rng.IntN(10); {
		case op < 5:
			r, err := call(cni.CmdAdd, id, "eth0", conf(dir, ipam))
			_, has := model[id]
			if full := len(model) >= min(room, 14); (err != nil) != (has || full) {
				t.Fatalf("step %d: add %s: %v with %d taken", step, id, err, len(model))
			}
			if err == nil {
				for _, ip := range r.IPs {
					for other, taken := range model {
						if slices.Contains(taken, ip.Address) {
							t.Fatalf("step %d: %v given to %s and %s", step, ip.Address, other, id)
						}
					}
					model[id] = append(model[id], ip.Address)
				}
			}
		case op < 9:
			if _, err := call(cni.CmdDel, id, "eth0", conf(dir, ipam)); err != nil {
				t.Fatalf("step %d: del %s: %v", step, id, err)
			}
			delete(model, id)
		default:
			delete(model, id)
			var valid []cni.Attachment
			for _, id := range slices.Sorted(maps.Keys(model)) {
				valid = append(valid, cni.Attachment{ContainerID: id, IfName: "eth0"})
			}
			data, err := json.Marshal(append([]cni.Attachment{}, valid...))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := call(cni.CmdGC, "", "", conf(dir, ipam, `"cni.dev/valid-attachments":`+string(data))); err != nil {
				t.Fatalf("step %d: gc: %v", step, err)
			}
		}
		files, _ := os.ReadDir(filepath.Join(dir, "net"))
		taken := 0
		for _, f := range files {
			if _, err := netip.ParseAddr(f.Name()); err == nil {
				taken++
			}
		}
		if taken != 2*len(model) {
			t.Fatalf("step %d: %d files for %d containers", step, taken, len(model))
		}
	}
}

func TestConcurrentAddsNeverShare(t *testing.T) {
	c := conf(t.TempDir(), `"subnet":"10.1.2.0/24"`)
	var mu sync.Mutex
	seen := make(map[netip.Prefix]string)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for m := range 10 {
				id := fmt.Sprintf("c%d-%d", n, m)
				r, err := call(cni.CmdAdd, id, "eth0", c)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if other, taken := seen[r.IPs[0].Address]; taken {
					t.Errorf("%v given to %s and %s", r.IPs[0].Address, other, id)
				}
				seen[r.IPs[0].Address] = id
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 80 {
		t.Errorf("%d addresses", len(seen))
	}
}

func FuzzConf(f *testing.F) {
	f.Add(`"subnet":"10.1.2.0/24","rangeStart":"10.1.2.10"`)
	f.Add(`"ranges":[[{"subnet":"fd00::/126"}]],"routes":[{"dst":"::/0"}]`)
	f.Fuzz(func(t *testing.T, ipam string) {
		dir := t.TempDir()
		r, err := call(cni.CmdAdd, "a", "eth0", `{"cniVersion":"1.0.0","name":"net","ipam":{`+ipam+fmt.Sprintf(`,"dataDir":%q}}`, dir))
		if err != nil {
			return
		}
		for _, ip := range r.IPs {
			if !ip.Address.IsValid() || ip.Address.Addr() == ip.Gateway {
				t.Errorf("%s gave %v", ipam, ip)
			}
		}
	})
}

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	env := map[string]string{
		"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/c1", "CNI_IFNAME": "eth0",
	}
	hostlocal.Plugin().Main(skel.Process{
		Getenv: func(k string) string { return env[k] },
		Stdin: strings.NewReader(`{"cniVersion": "1.0.0", "name": "pods",
			"ipam": {"type": "host-local", "subnet": "10.244.1.0/24", "dataDir": "` + dir + `"}}`),
		Stdout: os.Stdout, Stderr: os.Stderr,
	})
	// Output: {"cniVersion":"1.0.0","ips":[{"address":"10.244.1.2/24","gateway":"10.244.1.1"}]}
}
