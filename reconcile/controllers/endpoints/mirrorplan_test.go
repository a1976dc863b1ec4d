//lint:file-ignore SA1019 users still make Endpoints by hand

package endpoints

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func handMade(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", UID: "endpoints-1"}, Subsets: subsets}
}

// subsetOf has addresses, those behind "-" not ready, at ports.
func subsetOf(addresses string, ports ...int32) (s corev1.EndpointSubset) {
	for _, ip := range strings.Fields(addresses) {
		if not, ok := strings.CutPrefix(ip, "-"); ok {
			s.NotReadyAddresses = append(s.NotReadyAddresses, corev1.EndpointAddress{IP: not})
		} else {
			s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: ip})
		}
	}
	for _, port := range ports {
		s.Ports = append(s.Ports, corev1.EndpointPort{Name: fmt.Sprint("p", port), Port: port, Protocol: corev1.ProtocolTCP})
	}
	return s
}

// textOf returns the contents of a slice, in order: "IPv4 80,90 10.0.0.1 -10.0.0.2".
func textOf(slice *discoveryv1.EndpointSlice) string {
	var ports, words []string
	for _, p := range slice.Ports {
		ports = append(ports, fmt.Sprint(*p.Port))
	}
	for _, e := range slice.Endpoints {
		word := strings.Join(e.Addresses, "+")
		if !*e.Conditions.Ready {
			word = "-" + word
		}
		words = append(words, word)
	}
	slices.Sort(ports)
	return fmt.Sprintf("%s %s %s", slice.AddressType, strings.Join(ports, ","), strings.Join(words, " "))
}

func textsOf(list []*discoveryv1.EndpointSlice) (texts []string) {
	for _, slice := range list {
		texts = append(texts, textOf(slice))
	}
	slices.Sort(texts)
	return texts
}

func TestMirrorSlices(t *testing.T) {
	for name, test := range map[string]struct {
		subsets          []corev1.EndpointSubset
		most             int
		want             []string
		invalid, skipped int
	}{
		"none":                {nil, 9, nil, 0, 0},
		"no addresses":        {[]corev1.EndpointSubset{subsetOf("", 80)}, 9, nil, 0, 0},
		"one":                 {[]corev1.EndpointSubset{subsetOf("10.0.0.1", 80)}, 9, []string{"IPv4 80 10.0.0.1"}, 0, 0},
		"no ports":            {[]corev1.EndpointSubset{subsetOf("10.0.0.1")}, 9, []string{"IPv4  10.0.0.1"}, 0, 0},
		"not ready":           {[]corev1.EndpointSubset{subsetOf("-10.0.0.1 10.0.0.2", 80)}, 9, []string{"IPv4 80 10.0.0.2 -10.0.0.1"}, 0, 0},
		"families":            {[]corev1.EndpointSubset{subsetOf("10.0.0.1 fd00::1", 80)}, 9, []string{"IPv4 80 10.0.0.1", "IPv6 80 fd00::1"}, 0, 0},
		"two ports":           {[]corev1.EndpointSubset{subsetOf("10.0.0.1", 80, 90)}, 9, []string{"IPv4 80,90 10.0.0.1"}, 0, 0},
		"the same in two":     {[]corev1.EndpointSubset{subsetOf("10.0.0.1", 80), subsetOf("10.0.0.1", 90)}, 9, []string{"IPv4 80,90 10.0.0.1"}, 0, 0},
		"one port in two":     {[]corev1.EndpointSubset{subsetOf("10.0.0.1", 80), subsetOf("10.0.0.2", 80, 90)}, 9, []string{"IPv4 80 10.0.0.1 10.0.0.2", "IPv4 90 10.0.0.2"}, 0, 0},
		"ready and not":       {[]corev1.EndpointSubset{subsetOf("10.0.0.1", 80), subsetOf("-10.0.0.1", 80)}, 9, []string{"IPv4 80 -10.0.0.1"}, 0, 0},
		"not and ready":       {[]corev1.EndpointSubset{subsetOf("-10.0.0.1", 80), subsetOf("10.0.0.1", 80)}, 9, []string{"IPv4 80 -10.0.0.1"}, 0, 0},
		"ready at one port":   {[]corev1.EndpointSubset{subsetOf("10.0.0.1", 80), subsetOf("-10.0.0.1", 90)}, 9, []string{"IPv4 80 10.0.0.1", "IPv4 90 -10.0.0.1"}, 0, 0},
		"leading zeros":       {[]corev1.EndpointSubset{subsetOf("010.000.0.09 ::ffff:10.0.0.1", 80)}, 9, []string{"IPv4 80 10.0.0.9 10.0.0.1"}, 0, 0},
		"written in two ways": {[]corev1.EndpointSubset{subsetOf("10.0.0.1 10.0.0.01", 80)}, 9, []string{"IPv4 80 10.0.0.1"}, 0, 0},
		"no addresses at all": {[]corev1.EndpointSubset{subsetOf("10.0.0.256 10.0.0 host fe80::1%eth0 10.0.0.1", 80)}, 9, []string{"IPv4 80 10.0.0.1"}, 4, 4},
		"too many":            {[]corev1.EndpointSubset{subsetOf("10.0.0.3 -10.0.0.1 10.0.0.2", 80)}, 2, []string{"IPv4 80 10.0.0.2 10.0.0.3"}, 0, 1},
		"too many of each":    {[]corev1.EndpointSubset{subsetOf("10.0.0.1 10.0.0.2", 80), subsetOf("10.0.0.1 10.0.0.3", 90)}, 1, []string{"IPv4 80 10.0.0.1", "IPv4 90 10.0.0.1"}, 0, 2},
		"invalid do not fill": {[]corev1.EndpointSubset{subsetOf("10.0.0.! 10.0.0.1 10.0.0.2", 80)}, 1, []string{"IPv4 80 10.0.0.1"}, 1, 2},
	} {
		plan := planMirror(handMade(test.subsets...), nil, test.most)
		if plan.invalid != test.invalid || plan.skipped != test.skipped {
			t.Errorf("%s: %d are invalid and %d are left out, want %d and %d", name, plan.invalid, plan.skipped, test.invalid, test.skipped)
		}
		if got := textsOf(plan.create); !slices.Equal(got, test.want) || len(plan.update)+len(plan.remove) > 0 {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestMirrorSaysWhatIsSaid(t *testing.T) {
	endpoints := handMade(corev1.EndpointSubset{
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1", Hostname: "db-0", NodeName: new("node"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "p", UID: "u"}}},
		Ports:     []corev1.EndpointPort{{Name: "sql", Port: 5432, Protocol: corev1.ProtocolTCP, AppProtocol: new("example.com/sql")}},
	})
	endpoints.Labels = map[string]string{"app": "db", discoveryv1.LabelManagedBy: "me"}
	endpoints.Annotations = map[string]string{"note": "kept", corev1.EndpointsLastChangeTriggerTime: "now", corev1.LastAppliedConfigAnnotation: "{}"}
	plan := planMirror(endpoints, nil, 1000)
	if len(plan.create) != 1 {
		t.Fatalf("%d slices", len(plan.create))
	}
	slice := plan.create[0]
	labels := map[string]string{"app": "db", discoveryv1.LabelServiceName: "db", discoveryv1.LabelManagedBy: mirrorManager}
	if !maps.Equal(slice.Labels, labels) || !maps.Equal(slice.Annotations, map[string]string{"note": "kept"}) {
		t.Errorf("labels %v, annotations %v", slice.Labels, slice.Annotations)
	}
	owner := metav1.GetControllerOf(slice)
	if owner == nil || owner.Kind != "Endpoints" || owner.APIVersion != "v1" || owner.Name != "db" || owner.UID != "endpoints-1" || !*owner.BlockOwnerDeletion {
		t.Errorf("owner %v", owner)
	}
	e, p := slice.Endpoints[0], slice.Ports[0]
	if *e.Hostname != "db-0" || *e.NodeName != "node" || e.TargetRef.UID != "u" || e.Zone != nil || e.Conditions.Serving != nil || e.Conditions.Terminating != nil {
		t.Errorf("endpoint %+v", e)
	}
	if *p.Name != "sql" || *p.Port != 5432 || *p.Protocol != corev1.ProtocolTCP || *p.AppProtocol != "example.com/sql" {
		t.Errorf("port %+v", p)
	}
	if slice.Namespace != "default" || slice.GenerateName != "db-" {
		t.Errorf("name %s/%s", slice.Namespace, slice.GenerateName)
	}
}

// TestMirrorChanges: what there is is kept, and is changed where it must be.
func TestMirrorChanges(t *testing.T) {
	stored := func(subsets ...corev1.EndpointSubset) (list []*discoveryv1.EndpointSlice) {
		for i, slice := range planMirror(handMade(subsets...), nil, 9).create {
			slice.Name, slice.UID, slice.ResourceVersion = fmt.Sprint("db-", i), types.UID(fmt.Sprint("slice-", i)), fmt.Sprint(i)
			list = append(list, slice)
		}
		return list
	}
	one := subsetOf("10.0.0.1 10.0.0.2 -10.0.0.3", 80)
	for name, test := range map[string]struct {
		subset                 corev1.EndpointSubset
		change                 func(*discoveryv1.EndpointSlice)
		create, update, remove int
	}{
		"nothing":         {one, func(*discoveryv1.EndpointSlice) {}, 0, 0, 0},
		"another order":   {one, func(s *discoveryv1.EndpointSlice) { slices.Reverse(s.Endpoints) }, 0, 0, 0},
		"one less":        {subsetOf("10.0.0.1 -10.0.0.3", 80), func(*discoveryv1.EndpointSlice) {}, 0, 1, 0},
		"another":         {subsetOf("10.0.0.1 10.0.0.9 -10.0.0.3", 80), func(*discoveryv1.EndpointSlice) {}, 0, 1, 0},
		"ready":           {subsetOf("10.0.0.1 10.0.0.2 10.0.0.3", 80), func(*discoveryv1.EndpointSlice) {}, 0, 1, 0},
		"another port":    {subsetOf("10.0.0.1 10.0.0.2 -10.0.0.3", 90), func(*discoveryv1.EndpointSlice) {}, 0, 1, 0},
		"another family":  {subsetOf("fd00::1", 80), func(*discoveryv1.EndpointSlice) {}, 1, 0, 1},
		"nobody":          {subsetOf("", 80), func(*discoveryv1.EndpointSlice) {}, 0, 0, 1},
		"a label lost":    {one, func(s *discoveryv1.EndpointSlice) { s.Labels["stray"] = "x" }, 0, 1, 0},
		"an annotation":   {one, func(s *discoveryv1.EndpointSlice) { s.Annotations = map[string]string{"stray": "x"} }, 0, 1, 0},
		"another owner":   {one, func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].UID = "endpoints-0" }, 0, 1, 0},
		"an endpoint too": {one, func(s *discoveryv1.EndpointSlice) { s.Endpoints[1] = s.Endpoints[0] }, 0, 1, 0},
		"about to go":     {one, func(s *discoveryv1.EndpointSlice) { s.DeletionTimestamp = new(metav1.Now()) }, 1, 0, 0},
	} {
		have := stored(one)
		test.change(have[0])
		before := have[0].DeepCopy()
		plan := planMirror(handMade(test.subset), have, 9)
		if len(plan.create) != test.create || len(plan.update) != test.update || len(plan.remove) != test.remove {
			t.Errorf("%s: +%d ~%d -%d, want +%d ~%d -%d", name, len(plan.create), len(plan.update), len(plan.remove), test.create, test.update, test.remove)
		}
		for _, slice := range plan.update {
			if recycled := name == "another port"; recycled != (slice.GenerateName == "db-") {
				t.Errorf("%s: generated from %q", name, slice.GenerateName)
			}
			if slice.Name != "db-0" || slice.UID != "slice-0" || slice.ResourceVersion != "0" || !sameMirror(slice, stored(test.subset)[0]) {
				t.Errorf("%s: becomes %+v", name, slice)
			}
		}
		if !equality.Semantic.DeepEqual(before, have[0]) {
			t.Errorf("%s: what was seen was changed", name)
		}
	}
	// Of two that say the same, the second goes.
	twice := append(stored(one), stored(one)...)
	twice[1].Name = "db-9"
	if plan := planMirror(handMade(one), twice, 9); len(plan.create)+len(plan.update) > 0 || len(plan.remove) != 1 || plan.remove[0].Name != "db-9" {
		t.Errorf("of two: %+v", plan)
	}
}

// TestRepackSubsets: whatever is said of ports and addresses, in whatever subsets,
// is said once for each port. What is not ready in one place is not ready.
func TestRepackSubsets(t *testing.T) {
	for range 300 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		var subsets []corev1.EndpointSubset
		want := map[string]bool{} // "port address" to ready
		for range r.IntN(5) {
			var s corev1.EndpointSubset
			for i := range r.IntN(4) {
				s.Ports = append(s.Ports, corev1.EndpointPort{Port: int32(80 + r.IntN(2) + 2*i), Protocol: corev1.ProtocolTCP, AppProtocol: new("http")})
			}
			for range r.IntN(5) {
				a := corev1.EndpointAddress{IP: fmt.Sprint("10.0.0.", 1+r.IntN(4)), TargetRef: &corev1.ObjectReference{UID: types.UID(fmt.Sprint(r.IntN(2)))}}
				list, ready := &s.Addresses, r.IntN(3) > 0
				if !ready {
					list = &s.NotReadyAddresses
				}
				*list = append(*list, a)
				for _, port := range append(slices.Clone(s.Ports), noPort)[:max(1, len(s.Ports))] {
					k := fmt.Sprint(port.Port, " ", a.IP, " ", a.TargetRef.UID)
					before, had := want[k]
					want[k] = ready && (before || !had)
				}
			}
			subsets = append(subsets, s)
		}
		got := map[string]bool{}
		places := map[int32]int{}
		for i, s := range repackSubsets(subsets) {
			for _, port := range append(slices.Clone(s.Ports), noPort)[:max(1, len(s.Ports))] {
				if had, ok := places[port.Port]; ok && had != i {
					t.Errorf("seed %d: port %d is in two subsets", seed, port.Port)
				}
				places[port.Port] = i
				for j, a := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
					k := fmt.Sprint(port.Port, " ", a.IP, " ", a.TargetRef.UID)
					if _, had := got[k]; had {
						t.Errorf("seed %d: %s is there twice", seed, k)
					}
					got[k] = j < len(s.Addresses)
				}
			}
		}
		for k := range got {
			if strings.HasPrefix(k, "-1 ") {
				continue // a subset without ports has those of the other subsets with its addresses
			}
			if got[k] != want[k] {
				t.Errorf("seed %d: %s ready %t, want %t", seed, k, got[k], want[k])
			}
		}
		for k := range want {
			if _, ok := got[k]; !ok && !strings.HasPrefix(k, "-1 ") {
				t.Errorf("seed %d: %s is missing", seed, k)
			}
		}
	}
}

func TestMirrored(t *testing.T) {
	with := func(labels, annotations map[string]string) *corev1.Endpoints {
		return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}}
	}
	for name, test := range map[string]struct {
		endpoints *corev1.Endpoints
		want      bool
	}{
		"none":      {nil, false},
		"plain":     {with(nil, nil), true},
		"skipped":   {with(map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"}, nil), false},
		"not so":    {with(map[string]string{"endpointslice.kubernetes.io/skip-mirror": "false"}, nil), true},
		"a leader":  {with(nil, map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}), false},
		"no leader": {with(nil, map[string]string{"control-plane.alpha.kubernetes.io/leader": ""}), false},
	} {
		if got := mirrored(test.endpoints); got != test.want {
			t.Errorf("%s: mirrored() = %t, want %t", name, got, test.want)
		}
	}
	if endpointsByHand(nil) || endpointsByHand(&corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{}}}) || !endpointsByHand(&corev1.Service{}) {
		t.Error("a selector that is there selects")
	}
}
