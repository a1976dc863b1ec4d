package volumes_test

import (
	"maps"
	"testing"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestZone: the labels of a volume and those of the only node are compared.
func TestZone(t *testing.T) {
	const zone, oldZone, region, oldRegion = corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion
	for _, test := range []struct {
		name         string
		volume, node map[string]string
		fits         bool
	}{
		{"no labels", nil, map[string]string{zone: "a"}, true},
		{"the same", map[string]string{zone: "a"}, map[string]string{zone: "a"}, true},
		{"another", map[string]string{zone: "a"}, map[string]string{zone: "b"}, false},
		{"one of two", map[string]string{zone: "a__b"}, map[string]string{zone: "b"}, true},
		{"spaces", map[string]string{zone: "a__ b "}, map[string]string{zone: "b"}, true},
		{"none of two", map[string]string{zone: "a__b"}, map[string]string{zone: "c"}, false},
		{"an empty one says nothing", map[string]string{zone: "a__"}, map[string]string{zone: "c"}, true},
		{"the node says nothing", map[string]string{zone: "a"}, map[string]string{"other": "x"}, true},
		{"the node says only its region", map[string]string{zone: "a"}, map[string]string{region: "r"}, false},
		{"both must match", map[string]string{zone: "a", region: "r"}, map[string]string{zone: "a", region: "s"}, false},
		{"both match", map[string]string{zone: "a", region: "r"}, map[string]string{zone: "a", region: "r"}, true},
		{"old and new", map[string]string{oldZone: "a", oldRegion: "r"}, map[string]string{zone: "a", region: "r"}, true},
		{"old and another new", map[string]string{oldZone: "a"}, map[string]string{zone: "b"}, false},
		{"old and old", map[string]string{oldZone: "a"}, map[string]string{oldZone: "a", zone: "b"}, true},
		{"new and old", map[string]string{zone: "a"}, map[string]string{oldZone: "a"}, false},
	} {
		w := newWorld()
		w.nodes = w.nodes[:1]
		w.nodes[0].Labels = maps.Clone(test.node)
		w.volumes.Put(labelled(csi("disk", "x"), test.volume))
		w.claims.Put(claim("data", "", "disk"))
		want := "n1"
		if !test.fits {
			want = "0/1 nodes are available: 1 node(s) had no available volume zone."
		}
		if got := w.decide(w.checker().Zone(), pod("web", "", ofClaim("data"))); got != want {
			t.Errorf("%s: %s, want %s", test.name, got, want)
		}
	}
}

// TestNoZone: a pod whose volume is not known fits nowhere, unless its class waits.
func TestNoZone(t *testing.T) {
	for _, test := range []struct {
		name  string
		claim *corev1.PersistentVolumeClaim
		want  string
	}{
		{"missing", claim("other", "", ""), `persistentvolumeclaim "data" not found`},
		{"gone volume", claim("data", "", "disk"), `persistentvolume "disk" not found`},
		{"no class", claim("data", "", ""), "PersistentVolumeClaim had no pv name and storageClass name"},
		{"gone class", claim("data", "none", ""), `storageclass.storage.k8s.io "none" not found`},
		{"no mode", claim("data", "odd", ""), `VolumeBindingMode not set for StorageClass "odd"`},
		{"at once", claim("data", "at-once", ""), "PersistentVolume had no name"},
		{"waits", claim("data", "waits", ""), ""},
	} {
		w := newWorld()
		w.nodes = w.nodes[:1]
		w.claims.Put(test.claim)
		want := "n1"
		if test.want != "" {
			want = "0/1 nodes are available: " + test.want + "."
		}
		if got := w.decide(w.checker().Zone(), pod("web", "", ofClaim("data"))); got != want {
			t.Errorf("%s: %s, want %s", test.name, got, want)
		}
	}
}

func TestZoneWakes(t *testing.T) {
	waiting := schedule.NewPodInfo(pod("web", "", ofClaim("data")))
	inZone := func(zone string) *corev1.PersistentVolume {
		return labelled(csi("disk", "x"), map[string]string{corev1.LabelTopologyZone: zone, "other": zone})
	}
	class := func(mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, VolumeBindingMode: &mode}
	}
	for i, test := range []struct {
		event schedule.Event
		want  bool
	}{
		{schedule.Event{New: node("n1", "a")}, true},
		{schedule.Event{Old: node("n1", "a"), New: node("n1", "b")}, true},
		{schedule.Event{Old: node("n1", "a"), New: node("n1", "a")}, false},
		{schedule.Event{Old: node("n1", "a")}, false},
		{schedule.Event{New: inZone("a")}, true},
		{schedule.Event{Old: inZone("a"), New: inZone("b")}, true},
		{schedule.Event{Old: inZone("a"), New: csi("disk", "x")}, true},
		{schedule.Event{Old: inZone("a"), New: labelled(inZone("a"), map[string]string{corev1.LabelTopologyZone: "a"})}, false},
		{schedule.Event{Old: inZone("a")}, false},
		{schedule.Event{New: claim("data", "", "disk")}, true},
		{schedule.Event{New: claim("more", "", "disk")}, false},
		{schedule.Event{Old: claim("data", "", "disk")}, false},
		{schedule.Event{New: class(storagev1.VolumeBindingWaitForFirstConsumer)}, true},
		{schedule.Event{New: class(storagev1.VolumeBindingImmediate)}, false},
		{gone(pod("other", "n1", ofClaim("data"))), false},
	} {
		wakes(t, i, newWorld().checker().Zone(), waiting, test.event, test.want)
	}
}
