package cni_test

import (
	"reflect"
	"testing"

	"github.com/planekit/planekit/cni"
)

func TestResolvConf(t *testing.T) {
	d := cni.ParseResolvConf([]byte("# made\n;or not\nnameserver 10.96.0.10\nnameserver fd00::a extra\nsearch default.svc.cluster.local svc.cluster.local\nsearch cluster.local\noptions ndots:5\noptions edns0\ndomain a\ndomain b\nsortlist x\nnameserver\n"))
	want := cni.DNS{
		Nameservers: []string{"10.96.0.10", "fd00::a"}, Domain: "b",
		Search: []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local"}, Options: []string{"ndots:5", "edns0"},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("ParseResolvConf = %+v, want %+v", d, want)
	}
	const text = "nameserver 10.96.0.10\nnameserver fd00::a\ndomain b\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5 edns0\n"
	if got := string(d.ResolvConf()); got != text {
		t.Errorf("ResolvConf = %q, want %q", got, text)
	}
	forged := cni.DNS{Nameservers: []string{"10.0.0.1\nnameserver 6.6.6.6", ""}, Search: []string{"a b", "good"}}
	if got := string(forged.ResolvConf()); got != "search good\n" {
		t.Errorf("forged values became %q", got)
	}
}

func FuzzResolvConf(f *testing.F) {
	f.Add([]byte("nameserver 10.96.0.10\nsearch a b\noptions ndots:5\ndomain x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := cni.ParseResolvConf(data)
		if again := cni.ParseResolvConf(d.ResolvConf()); !reflect.DeepEqual(d, again) {
			t.Errorf("%q: %+v became %+v", data, d, again)
		}
	})
}
