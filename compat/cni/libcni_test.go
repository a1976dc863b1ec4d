//go:build linux

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/planekit/planekit/cni"
)

// conf is a network of bridge, host-local and portmap, which both sides' plugins understand.
func conf(version, data string) []byte {
	return fmt.Appendf(nil, `{"cniVersion":%[1]q,"name":"compat","plugins":[
		{"type":"bridge","bridge":"pk62c","isDefaultGateway":true,"hairpinMode":true,"ipMasq":true,"mtu":1400,"dns":{"nameservers":["10.96.0.10"]},
		 "ipam":{"type":"host-local","ranges":[[{"subnet":"10.62.8.0/24"}],[{"subnet":"fd62:8::/64"}]],"dataDir":%[2]q}},
		{"type":"portmap","capabilities":{"portMappings":true},"backend":"nftables"}]}`, version, data)
}

// ourChain is the network by planekit-cni.
func ourChain(version, data string) []byte {
	var list map[string]any
	if err := json.Unmarshal(conf(version, data), &list); err != nil {
		panic(err)
	}
	list["plugins"] = []any{map[string]any{
		"type": "planekit-cni", "dir": data, "capabilities": map[string]bool{"portMappings": true}, "delegates": list["plugins"],
	}}
	out, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return out
}

var portMappings = []any{map[string]any{"hostPort": 8062, "containerPort": 80, "protocol": "tcp"}, map[string]any{"hostPort": 8062, "containerPort": 53, "protocol": "udp"}}

// TestOurPluginsByLibcni: the reference library drives planekit's plugins through all commands, in every
// version of both.
func TestOurPluginsByLibcni(t *testing.T) {
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		for name, conf := range map[string]func(string, string) []byte{"plugins": conf, "chain": ourChain} {
			t.Run(name+" "+version, func(t *testing.T) {
				onHost(t, func() { lifeByLibcni(t, version, conf(version, filepath.Join(t.TempDir(), "data"))) })
			})
		}
	}
}

func lifeByLibcni(t *testing.T, version string, conf []byte) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	list, err := libcni.NetworkConfFromBytes(conf)
	if err != nil {
		t.Fatal(err)
	}
	reference := libcni.NewCNIConfigWithCacheDir([]string{ours}, t.TempDir(), nil)
	if _, err := reference.ValidateNetworkList(ctx, list); err != nil {
		t.Error(err)
	}
	if err := reference.GetStatusNetworkList(ctx, list); err != nil {
		t.Error(err)
	}
	runtime := func(id string) *libcni.RuntimeConf {
		return &libcni.RuntimeConf{
			ContainerID: id, NetNS: namespace(t), IfName: "eth0",
			Args:           [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAME", id}},
			CapabilityArgs: map[string]any{"portMappings": portMappings},
		}
	}
	a, b := runtime("a"), runtime("b")
	for n, rt := range []*libcni.RuntimeConf{a, b} {
		added, err := reference.AddNetworkList(ctx, list, rt)
		if err != nil {
			t.Fatal(err)
		}
		result, err := current.NewResultFromResult(added)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := result.IPs[0].Address.String(), fmt.Sprintf("10.62.8.%d/24", 2+n); added.Version() != version || got != want || len(result.IPs) != 2 || len(result.Interfaces) != 3 || result.DNS.Nameservers[0] != "10.96.0.10" {
			t.Errorf("result %v", added)
		}
	}
	if err := reference.CheckNetworkList(ctx, list, a); version != "0.3.1" && err != nil {
		t.Error(err)
	}
	reaches(t, a.NetNS, b.NetNS, "10.62.8.3:80")
	if _, err := reference.AddNetworkList(ctx, list, a); err == nil {
		t.Error("a second ADD succeeded")
	}
	if version == "1.1.0" {
		if err := reference.GCNetworkList(ctx, list, &libcni.GCArgs{ValidAttachments: []types.GCAttachment{{ContainerID: "a", IfName: "eth0"}}}); err != nil {
			t.Error(err)
		}
		if out := run(t, "nsenter", "--net="+b.NetNS, "ip", "-o", "link"); strings.Contains(out, "eth0") {
			t.Error("GC left the interface of b")
		}
	}
	for range 2 {
		for _, rt := range []*libcni.RuntimeConf{a, b} {
			if err := reference.DelNetworkList(ctx, list, rt); err != nil {
				t.Error(err)
			}
		}
	}
	if out := run(t, "ip", "-o", "link", "show", "type", "veth"); out != "" {
		t.Errorf("left behind: %s", out)
	}
	if out := run(t, "nft", "list", "tables", "inet"); out != "" {
		t.Errorf("left behind: %s", out)
	}
	var e *types.Error
	a.NetNS = "/nowhere"
	if _, err := reference.AddNetworkList(ctx, list, a); !errors.As(err, &e) || e.Code != cni.CodeIO {
		t.Errorf("without a namespace: %v", err)
	}
}

// TestReferencePluginsByInvoker: planekit's invoker drives the reference plugins through all commands, in
// every version of both.
func TestReferencePluginsByInvoker(t *testing.T) {
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		t.Run(version, func(t *testing.T) {
			onHost(t, func() { lifeByInvoker(t, version) })
		})
	}
}

func lifeByInvoker(t *testing.T, version string) {
	invoker, err := cni.New(cni.Config{Path: []string{theirs}, Dir: t.TempDir(), Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	list, err := cni.ParseList(conf(version, data))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := errors.Join(invoker.Validate(ctx, list), invoker.Status(ctx, list)); err != nil {
		t.Error(err)
	}
	var all []cni.RuntimeConfig
	for n, id := range []string{"a", "b"} {
		r := cni.RuntimeConfig{
			ContainerID: id, NetNS: namespace(t), IfName: "eth0", Args: cni.PodArgs("default", id, id, "uid"),
			Capabilities: map[string]any{"portMappings": portMappings},
		}
		result, err := invoker.Add(ctx, list, r)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := result.IPs[0].Address.String(), fmt.Sprintf("10.62.8.%d/24", 2+n); got != want || len(result.IPs) != 2 || len(result.Interfaces) != 3 || result.DNS.Nameservers[0] != "10.96.0.10" {
			t.Errorf("result %+v", result)
		}
		all = append(all, r)
	}
	reaches(t, all[0].NetNS, all[1].NetNS, "10.62.8.3:80")
	if err := invoker.GC(ctx, list, []cni.Attachment{{ContainerID: "a", IfName: "eth0"}}); err != nil {
		t.Error(err)
	}
	if out := run(t, "nsenter", "--net="+all[1].NetNS, "ip", "-o", "link"); strings.Contains(out, "eth0") {
		t.Error("GC left the interface of b")
	}
	for range 2 {
		for _, r := range all {
			if err := invoker.Del(ctx, list, r); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(data, "compat", "*[.:]*[.:]*")); err != nil || len(left) > 0 {
		t.Errorf("addresses left: %v %v", left, err)
	}
	// A failure has the reference's code and text, and leaves nothing.
	broken := all[0]
	broken.NetNS = "/nowhere"
	_, err = invoker.Add(ctx, list, broken)
	if e, ok := errors.AsType[*cni.Error](err); !ok || !strings.Contains(e.Error(), "/nowhere") {
		t.Errorf("without a namespace: %v", err)
	}
}

// TestOneDirectoryOfAddresses: both host-local plugins allocate and free in one directory at once. None
// gives what the other has given, and each frees what the other gave.
func TestOneDirectoryOfAddresses(t *testing.T) {
	data := t.TempDir()
	network := fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"shared","type":"x","ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.62.9.0/25"}]]}}`, data)
	call := func(bin, command, id string) (*cni.Result, error) {
		out, err := cni.Processes{}.Exec(t.Context(), cni.Call{
			Command: command, Type: "host-local", Path: []string{bin}, ContainerID: id, NetNS: "/x", IfName: "eth0", Stdin: network,
		})
		if err != nil || command != cni.CmdAdd {
			return nil, err
		}
		return cni.ParseResult(out, "")
	}
	var mu sync.Mutex
	given := map[string]string{}
	var all sync.WaitGroup
	for n, bin := range []string{ours, theirs, ours, theirs} {
		other := []string{theirs, ours}[n%2]
		all.Go(func() {
			for m := range 12 {
				id := fmt.Sprintf("c%d-%d", n, m)
				result, err := call(bin, cni.CmdAdd, id)
				if err != nil {
					t.Errorf("ADD of %s by %s: %v", id, bin, err)
					return
				}
				address := result.IPs[0].Address.String()
				mu.Lock()
				if owner, twice := given[address]; twice {
					t.Errorf("%s was given to %s and %s", address, owner, id)
				}
				given[address] = id
				mu.Unlock()
				if m%3 != 0 {
					continue
				}
				mu.Lock()
				delete(given, address) // before another can have it
				mu.Unlock()
				if _, err := call(other, cni.CmdDel, id); err != nil {
					t.Errorf("DEL of %s by %s: %v", id, other, err)
				}
			}
		})
	}
	all.Wait()
	entries, err := os.ReadDir(filepath.Join(data, "shared"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		if strings.Count(e.Name(), ".") == 3 {
			files = append(files, e.Name()+"/25")
		}
	}
	if want := slices.Sorted(maps.Keys(given)); !slices.Equal(slices.Sorted(slices.Values(files)), want) {
		t.Errorf("files %v, given %v", files, want)
	}
	for address, id := range given { // each frees the rest of both
		bin := []string{ours, theirs}[len(address)%2]
		if _, err := call(bin, cni.CmdDel, id); err != nil {
			t.Errorf("DEL of %s by %s: %v", id, bin, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(data, "shared", "10.*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
