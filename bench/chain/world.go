package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"

	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/pki"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where and by whom pods are created.
const (
	namespace = "team-0500"
	person    = "jane-0500"
	team      = "developers-0500"
)

// world holds the objects of both sides.
type world struct {
	namespaces          []*corev1.Namespace
	accounts            []*corev1.ServiceAccount
	classes             []*schedulingv1.PriorityClass
	roles               []*rbacv1.Role
	roleBindings        []*rbacv1.RoleBinding
	clusterRoles        []*rbacv1.ClusterRole
	clusterRoleBindings []*rbacv1.ClusterRoleBinding
	limits              []*corev1.LimitRange
	quotas              []*corev1.ResourceQuota // none

	authorities *x509.CertPool
	client      *x509.Certificate
}

// newWorld is a cluster of so many teams with a namespace, an account and a binding
// each, beside the policy of every cluster.
func newWorld(teams int) (*world, error) {
	w := &world{classes: kube.PriorityClasses()}
	w.clusterRoles, w.clusterRoleBindings = rbac.BootstrapPolicy()
	w.roles, w.roleBindings = rbac.BootstrapNamespacedPolicy()
	for i := range teams {
		name := fmt.Sprintf("team-%04d", i)
		w.namespaces = append(w.namespaces, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		})
		w.accounts = append(w.accounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}})
		w.limits = append(w.limits, limits(name))
		w.roleBindings = append(w.roleBindings, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "developers"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: fmt.Sprintf("developers-%04d", i)}},
		})
	}
	aggregate(w.clusterRoles)
	return w, w.certify()
}

// limits has defaults and bounds for containers.
func limits(namespace string) *corev1.LimitRange {
	size := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sizes"}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: size("2", "2Gi"), Default: size("500m", "256Mi"), DefaultRequest: size("100m", "128Mi"),
		}},
	}}
}

// aggregate sets the rules of aggregated roles, as the controller of a cluster does.
func aggregate(roles []*rbacv1.ClusterRole) {
	for range 3 { // admin is made of edit, which is made of view
		for _, role := range roles {
			if role.AggregationRule == nil {
				continue
			}
			role.Rules = nil
			for _, selector := range role.AggregationRule.ClusterRoleSelectors {
				wanted, err := metav1.LabelSelectorAsSelector(&selector)
				if err != nil {
					panic(err)
				}
				for _, part := range roles {
					if part != role && wanted.Matches(labelSet(part.Labels)) {
						role.Rules = append(role.Rules, part.Rules...)
					}
				}
			}
		}
	}
}

// certify makes an authority and a client certificate of it.
func (w *world) certify() error {
	authority, err := pki.New()
	if err != nil {
		return err
	}
	client, err := authority.Client("client", person, team)
	if err != nil {
		return err
	}
	w.authorities, w.client = authority.Pool(), client.Certificate
	return nil
}

// request is the create as a handler sees it, on a connection that shows the
// certificate.
func (w *world) request() (*http.Request, error) {
	r, err := http.NewRequest(http.MethodPost, "https://localhost/api/v1/namespaces/"+namespace+"/pods", http.NoBody)
	if err != nil {
		return nil, err
	}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{w.client}}
	return r, nil
}

// newPod is a pod as its defaults leave it, before admission.
func newPod() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-7c5ddbdf54-", Namespace: namespace, Labels: map[string]string{"app": "web", "pod-template-hash": "7c5ddbdf54"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "setup", Image: "registry.example.com/setup:1"}},
			Containers:     []corev1.Container{{Name: "web", Image: "registry.example.com/web:1.27"}, {Name: "log", Image: "registry.example.com/log:2"}},
		},
	}
	for _, r := range kube.Resources() {
		if r.Kind == "Pod" && r.Group == "" {
			r.Strategy.Default(pod)
		}
	}
	return pod
}
