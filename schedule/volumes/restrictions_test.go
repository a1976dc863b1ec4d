package volumes_test

import (
	"testing"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

func gcePD(name string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}
}

func ebs(id string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: readOnly}}
}

func iscsi(iqn string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: iqn, ReadOnly: readOnly}}
}

func rbd(image string, readOnly bool, monitors ...string) corev1.VolumeSource {
	return corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: monitors, RBDPool: "pool", RBDImage: image, ReadOnly: readOnly}}
}

// TestDisks: a disk is refused on the node of a pod that has it, unless both read it and the type allows that.
func TestDisks(t *testing.T) {
	const refused = "n2" // because n1 is refused
	for _, test := range []struct {
		name      string
		on, wants corev1.VolumeSource
		want      string
	}{
		{"gce", gcePD("d", false), gcePD("d", false), refused},
		{"gce, one reads", gcePD("d", true), gcePD("d", false), refused},
		{"gce, both read", gcePD("d", true), gcePD("d", true), ""},
		{"gce, others", gcePD("d", false), gcePD("e", false), ""},
		{"ebs", ebs("d", false), ebs("d", false), refused},
		{"ebs, both read", ebs("d", true), ebs("d", true), refused},
		{"ebs, others", ebs("d", false), ebs("e", false), ""},
		{"iscsi", iscsi("d", false), iscsi("d", true), refused},
		{"iscsi, both read", iscsi("d", true), iscsi("d", true), ""},
		{"iscsi, others", iscsi("d", false), iscsi("e", false), ""},
		{"rbd", rbd("d", false, "m1", "m2"), rbd("d", false, "m2", "m3"), refused},
		{"rbd, both read", rbd("d", true, "m1"), rbd("d", true, "m1"), ""},
		{"rbd, other monitors", rbd("d", false, "m1"), rbd("d", false, "m2"), ""},
		{"rbd, other images", rbd("d", false, "m1"), rbd("e", false, "m1"), ""},
		{"different types", ebs("d", false), gcePD("d", false), ""},
	} {
		w := newWorld()
		w.pods = []*corev1.Pod{pod("other", "n1", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, test.on)}
		if test.want == "" {
			w.nodes = w.nodes[:1]
			test.want = "n1"
		}
		if got := w.decide(w.checker().Restrictions(), pod("web", "", test.wants)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	w := newWorld()
	w.pods = []*corev1.Pod{pod("one", "n1", ebs("d", false)), pod("two", "n2", ebs("d", false))}
	if got := w.decide(w.checker().Restrictions(), pod("web", "", ebs("d", false))); got != "0/2 nodes are available: 2 node(s) had no available disk." {
		t.Error(got)
	}
}

// TestReadWriteOncePod: a claim for one pod only is refused everywhere while another pod has it.
func TestReadWriteOncePod(t *testing.T) {
	const inUse = "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod."
	elsewhere := pod("other", "n1", ofClaim("data"))
	elsewhere.Namespace = "other"
	for _, test := range []struct {
		name string
		pods []*corev1.Pod
		wish corev1.VolumeSource
		fits bool
		want string
	}{
		{"in use", []*corev1.Pod{pod("other", "n1", ofClaim("data"))}, ofClaim("data"), false, inUse},
		{"free", []*corev1.Pod{pod("other", "n1", ofClaim("shared"))}, ofClaim("data"), true, ""},
		{"of another namespace", []*corev1.Pod{elsewhere}, ofClaim("data"), true, ""},
		{"shared", []*corev1.Pod{pod("other", "n1", ofClaim("shared"))}, ofClaim("shared"), true, ""},
		{"missing", nil, ofClaim("none"), false, `0/2 nodes are available: persistentvolumeclaim "none" not found.`},
	} {
		w := newWorld()
		w.claims.Put(exclusive(claim("data", "", "disk")))
		w.claims.Put(claim("shared", "", "disk"))
		w.pods = test.pods
		got := w.decide(w.checker().Restrictions(), pod("web", "", test.wish))
		if fits := got == "n1" || got == "n2"; fits != test.fits || !fits && got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestPreemptsClaim: a pod that has a claim for one pod only is preempted by one of a higher priority.
func TestPreemptsClaim(t *testing.T) {
	w := newWorld()
	w.claims.Put(exclusive(claim("data", "", "disk")))
	s := schedule.NewState([]schedule.Predicate{w.checker().Restrictions()}, nil, 1)
	for _, n := range w.nodes {
		s.SetNode(n)
	}
	s.SetPod(schedule.NewPodInfo(pod("other", "n1", ofClaim("data"))))
	important := pod("web", "", ofClaim("data"))
	important.Spec.Priority = new(int32(10))
	info := schedule.NewPodInfo(important)
	_, unfit := s.Decide(info)
	best, ok := s.Preempt(info, unfit, nil)
	if !ok || best.Node != "n1" || len(best.Victims) != 1 || best.Victims[0].Pod.Name != "other" {
		t.Errorf("preemption %+v, %t", best, ok)
	}
}

func TestRestrictionsWake(t *testing.T) {
	waiting := schedule.NewPodInfo(pod("web", "", ebs("d", false), ofClaim("data")))
	other := pod("other", "n1", ofClaim("data"))
	other.Namespace = "other"
	for i, test := range []struct {
		event schedule.Event
		want  bool
	}{
		{gone(pod("other", "n1", ebs("d", false))), true},
		{gone(pod("other", "n1", ebs("e", false))), false},
		{gone(pod("other", "n1", ofClaim("data"))), true},
		{gone(pod("other", "n1", ofClaim("more"))), false},
		{gone(other), false},
		{schedule.Event{New: schedule.NewPodInfo(pod("other", "n1", ebs("d", false)))}, false},
		{schedule.Event{New: claim("data", "", "")}, true},
		{schedule.Event{New: claim("more", "", "")}, false},
		{schedule.Event{Old: node("n1", "a"), New: node("n1", "b")}, false},
		{schedule.Event{New: csi("disk", "x")}, false},
	} {
		wakes(t, i, newWorld().checker().Restrictions(), waiting, test.event, test.want)
	}
}

// gone returns the event that a pod has left its node.
func gone(p *corev1.Pod) schedule.Event { return schedule.Event{Old: schedule.NewPodInfo(p)} }

func wakes(t *testing.T, i int, p schedule.Predicate, waiting *schedule.PodInfo, e schedule.Event, want bool) {
	t.Helper()
	if got := p.(schedule.Waker).Wakes(waiting, e); got != want {
		t.Errorf("event %d, %+v: %t", i, e, got)
	}
}
