package serviceaccount_test

import (
	"context"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/planekit/planekit/admission/serviceaccount"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// oneAccount is an account "default" in every namespace.
type oneAccount struct{ automount *bool }

func (a oneAccount) Get(string) (*corev1.ServiceAccount, bool) {
	return &corev1.ServiceAccount{AutomountServiceAccountToken: a.automount}, true
}

func (a oneAccount) lookup(context.Context, string, string) (*corev1.ServiceAccount, error) {
	return &corev1.ServiceAccount{AutomountServiceAccountToken: a.automount}, nil
}

func admitted(t *testing.T, account oneAccount, none bool, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	plugin, err := serviceaccount.New(serviceaccount.Config{Accounts: account, Lookup: account.lookup, NoTokenVolume: none})
	if err != nil {
		t.Fatal(err)
	}
	if err := admit(context.Background(), plugin, create(p)); err != nil {
		t.Fatal(err)
	}
	return p
}

func withContainers() *corev1.Pod {
	p := pod("web", "")
	p.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	p.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
	return p
}

// The volume is the one that kube-apiserver adds.
func TestTokenVolume(t *testing.T) {
	p := admitted(t, oneAccount{}, false, withContainers())
	if len(p.Spec.Volumes) != 1 || !regexp.MustCompile(`^kube-api-access-[a-z0-9]{5}$`).MatchString(p.Spec.Volumes[0].Name) {
		t.Fatalf("volumes %v", p.Spec.Volumes)
	}
	const want = `{"projected":{"sources":[` +
		`{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},` +
		`{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},` +
		`{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}` +
		`],"defaultMode":420}}`
	if got, err := json.Marshal(p.Spec.Volumes[0].VolumeSource); err != nil || string(got) != want {
		t.Errorf("volume\n%s, want\n%s, %v", got, want, err)
	}
	for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
		want := corev1.VolumeMount{Name: p.Spec.Volumes[0].Name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
		if len(c.VolumeMounts) != 1 || c.VolumeMounts[0] != want {
			t.Errorf("container %s has the mounts %v, want only %v", c.Name, c.VolumeMounts, want)
		}
	}

	again := admitted(t, oneAccount{}, false, p.DeepCopy())
	if len(again.Spec.Volumes) != 1 || len(again.Spec.Containers[0].VolumeMounts) != 1 {
		t.Errorf("admitted again: %v", again.Spec)
	}
	other := admitted(t, oneAccount{}, false, withContainers())
	if other.Spec.Volumes[0].Name == p.Spec.Volumes[0].Name {
		t.Error("two pods have the same volume name")
	}
}

func TestAutomount(t *testing.T) {
	yes, no := new(true), new(false)
	for _, test := range []struct {
		pod, account *bool
		none, want   bool
	}{
		{nil, nil, false, true}, {nil, yes, false, true}, {nil, no, false, false},
		{yes, no, false, true}, {no, yes, false, false}, {no, nil, false, false}, {yes, yes, true, false},
	} {
		p := withContainers()
		p.Spec.AutomountServiceAccountToken = test.pod
		admitted(t, oneAccount{test.account}, test.none, p)
		if got := len(p.Spec.Volumes) == 1 && len(p.Spec.Containers[1].VolumeMounts) == 1; got != test.want || !got && len(p.Spec.Volumes) > 0 {
			t.Errorf("%+v: volume %v", test, got)
		}
	}
}

func TestPlaceIsTaken(t *testing.T) {
	own := corev1.VolumeMount{Name: "own", MountPath: serviceaccount.TokenMountPath}
	some := withContainers()
	some.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{own}
	admitted(t, oneAccount{}, false, some)
	if len(some.Spec.Volumes) != 1 || len(some.Spec.Containers[0].VolumeMounts) != 1 || len(some.Spec.Containers[1].VolumeMounts) != 1 {
		t.Errorf("one place taken: %v", some.Spec)
	}
	all := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "a", VolumeMounts: []corev1.VolumeMount{own}}}}}
	admitted(t, oneAccount{}, false, all)
	if len(all.Spec.Volumes) != 0 || len(all.Spec.Containers[0].VolumeMounts) != 1 {
		t.Errorf("every place taken: %v", all.Spec)
	}
}
