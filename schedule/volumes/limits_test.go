package volumes_test

import (
	"testing"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

func attachment(node, attacher, volume string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: volume + "-" + node}}
	a.Spec.NodeName, a.Spec.Attacher, a.Spec.Source.PersistentVolumeName = node, attacher, &volume
	return a
}

// TestLimits: on the only node, the driver has a limit of 2 volumes.
func TestLimits(t *testing.T) {
	const full = "0/1 nodes are available: 1 node(s) exceed max volume count."
	scratch := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	for _, test := range []struct {
		name   string
		driver string // whose limit it is; empty means driver
		set    func(*world)
		pods   []*corev1.Pod
		wants  []corev1.VolumeSource
		want   string
	}{
		{name: "room", pods: []*corev1.Pod{pod("one", "n1", ofClaim("a"))}, wants: []corev1.VolumeSource{ofClaim("b")}, want: "n1"},
		{name: "full", pods: []*corev1.Pod{pod("one", "n1", ofClaim("a"), ofClaim("b"))}, wants: []corev1.VolumeSource{ofClaim("c")}, want: full},
		{name: "too many at once", wants: []corev1.VolumeSource{ofClaim("a"), ofClaim("b"), ofClaim("c")}, want: full},
		{name: "the same twice", wants: []corev1.VolumeSource{ofClaim("a"), ofClaim("a"), ofClaim("b")}, want: "n1"},
		{name: "shared with a pod", pods: []*corev1.Pod{pod("one", "n1", ofClaim("a"), ofClaim("b"))}, wants: []corev1.VolumeSource{ofClaim("b")}, want: "n1"},
		{name: "the handle counts", set: func(w *world) { w.volumes.Put(csi("disk-c", "a")) },
			pods: []*corev1.Pod{pod("one", "n1", ofClaim("a"), ofClaim("b"))}, wants: []corev1.VolumeSource{ofClaim("c")}, want: "n1"},
		{name: "of another driver", driver: "other", wants: []corev1.VolumeSource{ofClaim("a"), ofClaim("b"), ofClaim("c")}, want: "n1"},
		{name: "no volumes", wants: []corev1.VolumeSource{{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, want: "n1"},
		{name: "no CSINode", set: func(w *world) { w.csiNodes.Delete("n1") }, wants: []corev1.VolumeSource{ofClaim("a"), ofClaim("b"), ofClaim("c")}, want: "n1"},
		{name: "no limit", set: func(w *world) {
			n := limited("n1", driver, 2)
			n.Spec.Drivers[0].Allocatable = nil
			w.csiNodes.Put(n)
		}, wants: []corev1.VolumeSource{ofClaim("a"), ofClaim("b"), ofClaim("c")}, want: "n1"},
		{name: "unbound claims count for the provisioner", set: func(w *world) { w.claims.Put(claim("c", "waits", "")) },
			pods: []*corev1.Pod{pod("one", "n1", ofClaim("a"), ofClaim("b"))}, wants: []corev1.VolumeSource{ofClaim("c")}, want: full},
		{name: "without class they do not", set: func(w *world) { w.claims.Put(claim("c", "", "")) },
			pods: []*corev1.Pod{pod("one", "n1", ofClaim("a"), ofClaim("b"))}, wants: []corev1.VolumeSource{ofClaim("c")}, want: "n1"},
		{name: "with a volume that is gone they do", set: func(w *world) { w.claims.Put(claim("c", "waits", "gone")) },
			pods: []*corev1.Pod{pod("one", "n1", ofClaim("a"), ofClaim("b"))}, wants: []corev1.VolumeSource{ofClaim("c")}, want: full},
		{name: "provisioners of old types", driver: "ebs.csi.aws.com", set: func(w *world) { w.claims.Put(claim("c", "ebs", "")) },
			pods: []*corev1.Pod{pod("one", "n1", ebs("vol-1", false), ebs("aws://zone/vol-2", false))}, wants: []corev1.VolumeSource{ofClaim("c")}, want: full},
		{name: "provisioners without a driver", set: func(w *world) { w.claims.Put(claim("c", "files", "")) },
			pods: []*corev1.Pod{pod("one", "n1", ofClaim("a"), ofClaim("b"))}, wants: []corev1.VolumeSource{ofClaim("c")}, want: "n1"},
		{name: "attached only", set: func(w *world) {
			w.attachments.Put(attachment("n1", driver, "disk-a"))
			w.attachments.Put(attachment("n2", driver, "disk-c"))
			w.attachments.Put(attachment("n1", "", "disk-c"))
			w.attachments.Put(attachment("n1", driver, "gone"))
		}, pods: []*corev1.Pod{pod("one", "n1", ofClaim("a"))}, wants: []corev1.VolumeSource{ofClaim("b")}, want: "n1"},
		{name: "attached and used", set: func(w *world) {
			w.attachments.Put(attachment("n1", driver, "disk-a"))
			w.attachments.Put(attachment("n1", driver, "disk-b"))
		}, wants: []corev1.VolumeSource{ofClaim("c")}, want: full},
		{name: "ephemeral", set: func(w *world) {
			c := claim("web-v0", "waits", "")
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "web", UID: "uid-web", Controller: new(true)}}
			w.claims.Put(c)
		}, pods: []*corev1.Pod{pod("one", "n1", ofClaim("a"), ofClaim("b"))}, wants: []corev1.VolumeSource{scratch}, want: full},
		{name: "ephemeral of another", set: func(w *world) { w.claims.Put(claim("web-v0", "waits", "")) }, wants: []corev1.VolumeSource{scratch},
			want: "0/1 nodes are available: 1 PVC default/web-v0 was not created for pod default/web (pod is not owner)."},
		{name: "missing", wants: []corev1.VolumeSource{ofClaim("none")},
			want: `0/1 nodes are available: 1 looking up PVC default/none: persistentvolumeclaim "none" not found.`},
		{name: "missing claims of others", pods: []*corev1.Pod{pod("one", "n1", ofClaim("none"), ofClaim("a"))}, wants: []corev1.VolumeSource{ofClaim("b")}, want: "n1"},
	} {
		w := newWorld()
		w.nodes = w.nodes[:1]
		if test.driver == "" {
			test.driver = driver
		}
		w.csiNodes.Put(limited("n1", test.driver, 2))
		for _, name := range []string{"a", "b", "c"} {
			w.volumes.Put(csi("disk-"+name, name))
			w.claims.Put(claim(name, "", "disk-"+name))
		}
		if w.pods = test.pods; test.set != nil {
			test.set(w)
		}
		if got := w.decide(w.checker().Limits(), pod("web", "", test.wants...)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestMigratedTypes: a volume of a type that a driver has replaced counts as one of the driver, the same one
// whether a pod or a persistent volume names it.
func TestMigratedTypes(t *testing.T) {
	managed, dedicated := corev1.AzureManagedDisk, corev1.AzureDedicatedBlobDisk
	azure := func(kind *corev1.AzureDataDiskKind) *corev1.AzureDiskVolumeSource {
		return &corev1.AzureDiskVolumeSource{DataDiskURI: "uri", Kind: kind}
	}
	gce := func() corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d"}}
	}
	const ebsDriver, gceDriver = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
	for _, test := range []struct {
		name, driver string
		inline       corev1.VolumeSource
		persistent   *corev1.PersistentVolume
		counts, same bool
	}{
		{"ebs", ebsDriver, ebs("vol-1", false), persistent("v", corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/vol-1"}}), true, true},
		{"ebs with a driver's volume", ebsDriver, ebs("vol-1", false), persistent("v", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: ebsDriver, VolumeHandle: "vol-1"}}), true, true},
		{"ebs, a strange name", ebsDriver, ebs("vol-1", false), persistent("v", corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/b/vol-1"}}), false, false},
		{"ebs, no URL", ebsDriver, ebs("vol-1", false), persistent("v", corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://%zz"}}), false, false},
		{"gce", gceDriver, gcePD("d", false), persistent("v", gce()), true, true},
		{"gce in a zone", gceDriver, gcePD("d", false), labelled(persistent("v", gce()), map[string]string{corev1.LabelTopologyZone: "us-east1-a"}), true, false},
		{"gce in a region", gceDriver, gcePD("d", false), labelled(persistent("v", gce()), map[string]string{corev1.LabelFailureDomainBetaZone: "us-east1-a__us-east1-b"}), true, false},
		{"gce in two regions", gceDriver, gcePD("d", false), labelled(persistent("v", gce()), map[string]string{corev1.LabelTopologyZone: "us-east1-a__us-west1-a"}), false, false},
		{"gce nowhere", gceDriver, gcePD("d", false), labelled(persistent("v", gce()), map[string]string{corev1.LabelTopologyZone: "a__b"}), false, false},
		{"azure", "disk.csi.azure.com", corev1.VolumeSource{AzureDisk: azure(nil)}, persistent("v", corev1.PersistentVolumeSource{AzureDisk: azure(&managed)}), true, true},
		{"azure, not managed", "disk.csi.azure.com", corev1.VolumeSource{AzureDisk: azure(nil)}, persistent("v", corev1.PersistentVolumeSource{AzureDisk: azure(&dedicated)}), false, false},
		{"cinder", "cinder.csi.openstack.org", corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "x"}},
			persistent("v", corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "x"}}), true, true},
		{"portworx", "pxd.portworx.com", corev1.VolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "x"}},
			persistent("v", corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "x"}}), true, true},
		{"host path", driver, ebs("vol-1", false), persistent("v", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), false, false},
	} {
		fits := func(limit int32, sources ...corev1.VolumeSource) bool {
			w := newWorld()
			w.nodes = w.nodes[:1]
			w.csiNodes.Put(limited("n1", test.driver, limit))
			w.volumes.Put(test.persistent)
			w.claims.Put(claim("c", "", "v"))
			return w.decide(w.checker().Limits(), pod("web", "", sources...)) == "n1"
		}
		if got := !fits(0, ofClaim("c")); got != test.counts {
			t.Errorf("%s: the persistent volume counts: %t", test.name, got)
		}
		if got := fits(1, test.inline, ofClaim("c")); test.counts && got != test.same {
			t.Errorf("%s: both are one volume: %t", test.name, got)
		}
	}
}

func TestLimitsWake(t *testing.T) {
	waiting := schedule.NewPodInfo(pod("web", "", ofClaim("data"), corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}))
	unlimited := limited("n1", driver, 1)
	unlimited.Spec.Drivers[0].Allocatable = nil
	for i, test := range []struct {
		event schedule.Event
		want  bool
	}{
		{schedule.Event{New: limited("n1", driver, 1)}, true},
		{schedule.Event{Old: limited("n1", driver, 1)}, true},
		{schedule.Event{Old: limited("n1", driver, 1), New: limited("n1", driver, 2)}, true},
		{schedule.Event{Old: limited("n1", driver, 1), New: unlimited}, true},
		{schedule.Event{Old: limited("n1", driver, 2), New: limited("n1", driver, 1)}, false},
		{schedule.Event{Old: unlimited, New: limited("n1", driver, 1)}, false},
		{schedule.Event{Old: attachment("n1", driver, "v")}, true},
		{schedule.Event{New: attachment("n1", driver, "v")}, false},
		{gone(pod("other", "n1", ofClaim("x"))), true},
		{gone(pod("other", "n1", ebs("x", false))), true},
		{gone(pod("other", "n1", iscsi("x", false))), false},
		{schedule.Event{New: schedule.NewPodInfo(pod("other", "n1", ofClaim("x")))}, false},
		{schedule.Event{New: schedule.NewPodInfo(pod("other", "n1", ofClaim("data")))}, true}, // it is there already
		{schedule.Event{Old: csi("disk", "x")}, true},
		{schedule.Event{New: csi("disk", "x")}, false},
		{schedule.Event{Old: &storagev1.StorageClass{}}, true},
		{schedule.Event{New: &storagev1.StorageClass{}}, false},
		{schedule.Event{New: claim("data", "", "")}, true},
		{schedule.Event{New: claim("web-v1", "", "")}, true},
		{schedule.Event{New: claim("x", "", "")}, false},
		{schedule.Event{New: node("n1", "a")}, false},
	} {
		w := newWorld()
		w.claims.Put(claim("data", "waits", ""))
		wakes(t, i, w.checker().Limits(), waiting, test.event, test.want)
	}
}
