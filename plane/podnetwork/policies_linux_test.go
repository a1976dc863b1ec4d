package podnetwork

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/planekit/planekit/service/policy"
)

// TestPeersKeepWhatPoliciesAsk: pods without what their cache drops have the same rules as whole ones.
func TestPeersKeepWhatPoliciesAsk(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	port := func(name string, number int32) corev1.Container {
		return corev1.Container{Name: name, Image: "nginx", Env: []corev1.EnvVar{{Name: "SECRET", Value: "hidden"}},
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}}}
	}
	side := port("side", 81)
	side.RestartPolicy = &always
	whole := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{port("http", 80)}, InitContainers: []corev1.Container{side, port("once", 82)}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.244.0.2", PodIPs: []corev1.PodIP{{IP: "10.244.0.2"}, {IP: "fd00::2"}}},
	}
	data, err := whole.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	peer := &corev1.Pod{}
	if err := unmarshalPeer(data, peer); err != nil {
		t.Fatal(err)
	}
	var ports []networkingv1.NetworkPolicyPort
	for _, name := range []string{"http", "side", "once"} {
		ports = append(ports, networkingv1.NetworkPolicyPort{Port: new(intstr.FromString(name))})
	}
	world := policy.World{Node: "node", Policies: []*networkingv1.NetworkPolicy{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{Ports: ports}}, Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: ports}},
		},
	}}}
	var made []any
	for _, pod := range []*corev1.Pod{whole, peer} {
		world.Pods = []*corev1.Pod{pod}
		made = append(made, world.Fragments())
	}
	if !reflect.DeepEqual(made[0], made[1]) {
		t.Errorf("rules of the peer %v, of the pod %v", made[1], made[0])
	}
	if len(peer.Spec.Containers[0].Env) > 0 || peer.Annotations != nil {
		t.Errorf("the peer keeps %+v", peer)
	}
}
