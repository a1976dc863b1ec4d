package node

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPlanRanges(t *testing.T) {
	node := func(name string, cidrs ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		if len(cidrs) > 0 {
			n.Spec.PodCIDR, n.Spec.PodCIDRs = cidrs[0], cidrs
		}
		return n
	}
	going, goingWith := node("a"), node("a", "10.0.0.0/24")
	going.DeletionTimestamp, goingWith.DeletionTimestamp = &metav1.Time{}, &metav1.Time{}
	for name, test := range map[string]struct {
		cluster string
		bits    int
		nodes   []*corev1.Node
		given   map[types.UID]netip.Prefix
		want    string
	}{
		"lowest first":                {"10.244.0.0/16", 24, []*corev1.Node{node("a"), node("b", "10.244.1.0/24"), node("c")}, nil, "a=10.244.0.0/24 c=10.244.2.0/24"},
		"given is kept":               {"10.0.0.0/22", 24, []*corev1.Node{node("a"), node("b")}, map[types.UID]netip.Prefix{"b": netip.MustParsePrefix("10.0.0.0/24")}, "a=10.0.1.0/24 b=10.0.0.0/24"},
		"other lengths":               {"10.0.0.0/22", 24, []*corev1.Node{node("a"), node("b", "10.0.0.0/23"), node("c", "10.0.2.128/25")}, nil, "a=10.0.3.0/24"},
		"full":                        {"10.0.0.0/24", 24, []*corev1.Node{node("a"), node("b")}, nil, "a=10.0.0.0/24 b full"},
		"wider than all":              {"10.0.0.0/22", 24, []*corev1.Node{node("a"), node("b", "10.0.0.0/8")}, nil, "a full"},
		"elsewhere":                   {"10.0.0.0/24", 24, []*corev1.Node{node("a"), node("b", "192.168.0.0/16")}, nil, "a=10.0.0.0/24"},
		"six":                         {"fd00:1::/56", 64, []*corev1.Node{node("a", "fd00:1::/64"), node("b")}, nil, "b=fd00:1:0:1::/64"},
		"second family":               {"fd00:1::/56", 64, []*corev1.Node{node("a", "10.0.0.0/24", "fd00:1::/64"), node("b")}, nil, "b=fd00:1:0:1::/64"},
		"one that goes":               {"10.0.0.0/24", 24, []*corev1.Node{going, node("b")}, nil, "b=10.0.0.0/24"},
		"one that goes, with a range": {"10.0.0.0/23", 24, []*corev1.Node{goingWith, node("b")}, nil, "b=10.0.1.0/24"},
		"not a real CIDR":             {"10.0.0.0/24", 24, []*corev1.Node{node("a"), node("b", "nonsense")}, nil, "a=10.0.0.0/24"},
	} {
		plan, full := planRanges(netip.MustParsePrefix(test.cluster), test.bits, test.nodes, test.given)
		var got []string
		for _, p := range plan {
			got = append(got, p.node.Name+"="+p.prefix.String())
		}
		for _, n := range full {
			got = append(got, n.Name+" full")
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s: %s, want %s", name, s, test.want)
		}
	}
}

func FuzzMark(f *testing.F) {
	f.Add("10.0.3.0/24")
	f.Add("::ffff:10.0.0.0/100")
	f.Add("0.0.0.0/0")
	f.Fuzz(func(t *testing.T, s string) {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			return
		}
		cluster := netip.MustParsePrefix("10.0.0.0/20")
		used := make([]bool, 16)
		mark(used, cluster, 24, prefix)
		for i := range used {
			if want := subnet(cluster, 24, i).Overlaps(prefix); used[i] != want {
				t.Errorf("%s: range %d is marked %t, overlaps %t", s, i, used[i], want)
			}
		}
	})
}
