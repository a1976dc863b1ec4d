package cni_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/cni"
)

func TestParseList(t *testing.T) {
	for _, test := range []struct{ conf, version, fails string }{
		{conf: `{"cniVersion":"1.0.0","name":"n","type":"bridge"}`, version: "1.0.0"},
		{conf: `{"cniVersion":"0.4.0","cniVersions":["0.4.0","1.1.0","9.0.0"],"name":"n","plugins":[{"type":"bridge"}]}`, version: "1.1.0"},
		{conf: `{"cniVersion":"1.0.0","name":"n","disableCheck":"true","disableGC":true,"type":"p"}`, version: "1.0.0"},
		{conf: `{"cniVersion":"0.2.0","name":"n","type":"p"}`, fails: "incompatible CNI versions"},
		{conf: `{"name":"n","type":"p"}`, fails: "cniVersion is missing"},
		{conf: `{"cniVersion":"1.0.0","name":"n","plugins":[]}`, fails: "no plugins"},
		{conf: `{"cniVersion":"1.0.0","name":"n","plugins":[{}]}`, fails: "plugin 0: invalid plugin type"},
		{conf: `{"cniVersion":"1.0.0","name":"n","type":"../evil"}`, fails: "without separators"},
		{conf: `{"cniVersion":"1.0.0","name":"n","type":".."}`, fails: "without separators"},
		{conf: `{"cniVersion":"1.0.0","name":"a/b","type":"p"}`, fails: "invalid name"},
		{conf: `{"cniVersion":"1.0.0","name":"-a","type":"p"}`, fails: "invalid name"},
		{conf: `{"cniVersion":"1.0.0","Name":"n","type":"p"}`, fails: "invalid name"},
		{conf: `{"cniVersion":"1.0.0","name":"n","type":"p","disableCheck":"maybe"}`, fails: "neither true nor false"},
		{conf: `null`, fails: "not an object"},
		{conf: `{"cniVersion":"1.0.0"`, fails: "unexpected end"},
	} {
		l, err := cni.ParseList([]byte(test.conf))
		switch {
		case test.fails != "":
			if err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%s: error %v, want %q", test.conf, err, test.fails)
			}
		case err != nil:
			t.Errorf("ParseList(%s): %v", test.conf, err)
		case l.Version != test.version || l.Name != "n" || len(l.Plugins) != 1:
			t.Errorf("ParseList(%s) = %+v, want n of the version %s with 1 plugin", test.conf, l, test.version)
		case strings.Contains(test.conf, "disable") != (l.DisableCheck && l.DisableGC):
			t.Errorf("ParseList(%s) = %+v, want DisableCheck and DisableGC: %v", test.conf, l, strings.Contains(test.conf, "disable"))
		}
	}
}

func TestLoadDir(t *testing.T) {
	dir := t.TempDir()
	if _, err := cni.LoadDir(filepath.Join(dir, "missing")); !errors.Is(err, cni.ErrNoConfig) {
		t.Error(err)
	}
	write := func(name, data string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("00-readme.txt", "not a configuration")
	if _, err := cni.LoadDir(dir); !errors.Is(err, cni.ErrNoConfig) {
		t.Error(err)
	}
	write("20-b.conf", `{"cniVersion":"1.0.0","name":"second","type":"p"}`)
	if err := cni.WriteFile(filepath.Join(dir, "10-a.conflist"), []byte(`{"cniVersion":"1.0.0","name":"first","plugins":[{"type":"p"}]}`)); err != nil {
		t.Fatal(err)
	}
	if l, err := cni.LoadDir(dir); err != nil || l.Name != "first" {
		t.Errorf("LoadDir = %+v, %v, want the list first", l, err)
	}
	write("05-bad.json", `{`)
	if _, err := cni.LoadDir(dir); err == nil || !strings.Contains(err.Error(), "05-bad.json") {
		t.Errorf("a bad first file: %v", err)
	}
	if err := cni.WriteFile(filepath.Join(dir, "bad.conf"), []byte(`{}`)); err == nil {
		t.Error("a bad configuration was written")
	}
}

func TestCheckNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "0.A_-": true, "": false, ".a": false, "a/b": false, "a b": false, "é": false, "a@b": false,
	} {
		if err := cni.CheckName(name); (err == nil) != ok {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for name, ok := range map[string]bool{
		"eth0": true, "a@b": true, "123456789012345": true, "1234567890123456": false, "": false,
		".": false, "..": false, "a/b": false, "a:b": false, "a b": false, "a\tb": false,
	} {
		if err := cni.CheckIfName(name); (err == nil) != ok {
			t.Errorf("interface %q: %v", name, err)
		}
	}
}

func TestResultVersions(t *testing.T) {
	one, table := 0, 100
	r := &cni.Result{
		Interfaces: []cni.Interface{{Name: "eth0", Mac: "02:00:00:00:00:01", MTU: 1450, Sandbox: "/ns", PciID: "1"}},
		IPs: []cni.IP{
			{Interface: &one, Address: netip.MustParsePrefix("10.0.0.5/24"), Gateway: netip.MustParseAddr("10.0.0.1")},
			{Interface: &one, Address: netip.MustParsePrefix("fd00::5/64")},
		},
		Routes: []cni.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), GW: netip.MustParseAddr("10.0.0.1"), MTU: 1400, Table: &table}},
		DNS:    cni.DNS{Nameservers: []string{"10.96.0.10"}},
	}
	for version, want := range map[string]string{
		"0.3.1": `{"cniVersion":"0.3.1","interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"/ns"}],"ips":[{"version":"4","interface":0,"address":"10.0.0.5/24","gateway":"10.0.0.1"},{"version":"6","interface":0,"address":"fd00::5/64"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"}],"dns":{"nameservers":["10.96.0.10"]}}`,
		"1.0.0": `{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"/ns"}],"ips":[{"interface":0,"address":"10.0.0.5/24","gateway":"10.0.0.1"},{"interface":0,"address":"fd00::5/64"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"}],"dns":{"nameservers":["10.96.0.10"]}}`,
		"1.1.0": `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","mtu":1450,"sandbox":"/ns","pciID":"1"}],"ips":[{"interface":0,"address":"10.0.0.5/24","gateway":"10.0.0.1"},{"interface":0,"address":"fd00::5/64"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1","mtu":1400,"table":100}],"dns":{"nameservers":["10.96.0.10"]}}`,
	} {
		got, err := r.Encode(version)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n got %s\nwant %s", version, err, got, want)
		}
		back, err := cni.ParseResult(got, "")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := back.Encode(version); err != nil || string(again) != want {
			t.Errorf("%s: parsed and encoded: %v %s", version, err, again)
		}
	}
	if _, err := r.Encode("0.2.0"); err == nil {
		t.Error("encoded as 0.2.0")
	}
	for data, want := range map[string]string{
		`null`:                      "not an object",
		`[]`:                        "cannot unmarshal",
		`{"cniVersion":"7.0.0"}`:    `unsupported version "7.0.0"`,
		`{"ips":[{}]}`:              "no address",
		`{"routes":[{}]}`:           "no destination",
		`{} trailing`:               "invalid character",
		`{"ips":[{"address":"x"}]}`: "x",
		`{"ips":[{"address":"10.0.0.1/8","interface":0}]}`: "there is no interface 0",
	} {
		if _, err := cni.ParseResult([]byte(data), "1.0.0"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
}

func FuzzParseList(f *testing.F) {
	f.Add([]byte(`{"cniVersion":"1.0.0","name":"n","type":"p","capabilities":{"mac":true}}`))
	f.Add([]byte(`{"cniVersion":"0.4.0","cniVersions":["1.1.0"],"name":"n","disableGC":"false","plugins":[{"type":"p"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := cni.ParseList(data)
		if err != nil {
			return
		}
		if !cni.Supported(l.Version) || cni.CheckName(l.Name) != nil || len(l.Plugins) == 0 {
			t.Errorf("bad list %+v", l)
		}
		for _, p := range l.Plugins {
			if cni.CheckType(p.Type) != nil || filepath.Base(p.Type) != p.Type {
				t.Errorf("bad type %q", p.Type)
			}
		}
	})
}

func FuzzParseResult(f *testing.F) {
	f.Add([]byte(`{"cniVersion":"0.3.1","interfaces":[{"name":"eth0"}],"ips":[{"version":"4","address":"10.0.0.1/8","interface":0}],"routes":[{"dst":"::/0","gw":"::1"}],"dns":{}}`))
	f.Add([]byte(`{"ips":[{"address":"fe80::1%x/64"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := cni.ParseResult(data, "1.0.0")
		if err != nil {
			return
		}
		once, err := r.Encode("1.1.0")
		if err != nil {
			t.Fatal(err)
		}
		r, err = cni.ParseResult(once, "")
		if err != nil {
			t.Fatalf("own encoding %s: %v", once, err)
		}
		if twice, err := r.Encode("1.1.0"); err != nil || string(twice) != string(once) {
			t.Errorf("%s became %s, %v", once, twice, err)
		}
	})
}

func FuzzParseArgs(f *testing.F) {
	f.Add("IgnoreUnknown=1;K8S_POD_NAME=web")
	f.Add(";;a=b=c;")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := cni.ParseArgs(s)
		if err != nil {
			return
		}
		b, err := cni.ParseArgs(a.String())
		if err != nil || a.String() != b.String() {
			t.Errorf("%q: %v became %v, %v", s, a, b, err)
		}
	})
}

func TestArgsCannotBeForged(t *testing.T) {
	invoker, err := cni.New(cni.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := cni.ParseList([]byte(`{"cniVersion":"1.0.0","name":"net","type":"p"}`))
	if err != nil {
		t.Fatal(err)
	}
	r := web
	r.Args = cni.PodArgs("default", "web;K8S_POD_NAMESPACE=kube-system", "x", "y")
	if _, err := invoker.Add(t.Context(), l, r); err == nil || !strings.Contains(err.Error(), "separator") {
		t.Errorf("error %v", err)
	}
	if data, err := json.Marshal(r.Args); err != nil || len(data) == 0 {
		t.Error(err)
	}
}
