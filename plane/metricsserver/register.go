package metricsserver

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kinds/apiregistration"
	"github.com/planekit/planekit/metricsapi"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/bootstrap"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names that metrics-server has in a cluster, and the label of what this package manages.
const (
	namespace    = metav1.NamespaceSystem
	name         = "metrics-server"
	reader       = "system:aggregated-metrics-reader"
	managedLabel = "app.kubernetes.io/managed-by"
	manager      = "planekit"
)

// registered returns the name of the APIService.
func registered() string {
	return metricsapi.GroupVersion.Version + "." + metricsapi.GroupVersion.Group
}

// taken reports whether the APIService leads to another program's server.
func taken(ctx context.Context, api *client.Client) (bool, error) {
	have, err := typed.APIServices(api).Get(ctx, "", registered())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("metrics server: %w", err)
	}
	return have.Labels[managedLabel] != manager, nil
}

// register writes the objects by which the server on a port is found and used. ca signs its
// certificate.
func register(ctx context.Context, api *client.Client, port int32, ca []byte) error {
	if err := bootstrap.Grant(ctx, api, policy()); err != nil {
		return fmt.Errorf("metrics server: roles: %w", err)
	}
	labels := map[string]string{"k8s-app": name, managedLabel: manager}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	err := put(ctx, typed.Services(api), service, func(have *corev1.Service) {
		have.Labels = labels
		have.Spec = corev1.ServiceSpec{Type: service.Spec.Type, ExternalName: service.Spec.ExternalName}
	})
	if err != nil {
		return fmt.Errorf("metrics server: %w", err)
	}
	apiService := &apiregistration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: registered(), Labels: labels},
		Spec: apiregistration.APIServiceSpec{
			Group: metricsapi.GroupVersion.Group, Version: metricsapi.GroupVersion.Version, GroupPriorityMinimum: 100, VersionPriority: 100,
			CABundle: ca, Service: &apiregistration.ServiceReference{Namespace: namespace, Name: name, Port: &port},
		},
	}
	err = put(ctx, typed.APIServices(api), apiService, func(have *apiregistration.APIService) {
		have.Labels, have.Spec = labels, apiService.Spec
	})
	if err != nil {
		return fmt.Errorf("metrics server: %w", err)
	}
	return nil
}

// put creates an object, or changes the one that exists by change.
func put[T client.Object](ctx context.Context, resource client.Resource[T], object T, change func(have T)) error {
	_, err := resource.Create(ctx, object)
	for apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		var have T
		if have, err = resource.Get(ctx, object.GetNamespace(), object.GetName()); err == nil {
			change(have)
			_, err = resource.Update(ctx, have)
		}
	}
	return err
}

// policy returns the roles of the server at the kubelets and of its users.
func policy() rbac.Policy {
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"}}
	}
	aggregated := map[string]string{}
	for _, role := range []string{"view", "edit", "admin"} {
		aggregated["rbac.authorization.k8s.io/aggregate-to-"+role] = "true"
	}
	return rbac.Policy{
		ClusterRoles: []*rbacv1.ClusterRole{
			{ObjectMeta: meta(plane.MetricsServer, nil), Rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes/metrics"}},
			}},
			{ObjectMeta: meta(reader, aggregated), Rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{metricsapi.GroupVersion.Group}, Resources: []string{"pods", "nodes"}},
			}},
		},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{
			ObjectMeta: meta(plane.MetricsServer, nil),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: plane.MetricsServer},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: plane.MetricsServer}},
		}},
	}
}
