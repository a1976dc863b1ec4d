package service

import (
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/kinds"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// managedBy is the label of the IPAddresses of cluster IPs.
const managedBy = "ipallocator.k8s.io"

// shownAddresses records cluster IPs as IPAddresses.
func shownAddresses() *apiserver.ShownValues {
	services := kinds.Services.Plural
	return &apiserver.ShownValues{
		Resource: kinds.IPAddresses.GroupResource(),
		Name: func(value string) string {
			ip, ok := strings.CutPrefix(value, ipPrefix)
			if _, valid := check.ParseIP(ip); !ok || !valid {
				return ""
			}
			return ip
		},
		New: func(value, namespace, name string) runtime.Object {
			ip := strings.TrimPrefix(value, ipPrefix)
			return &networkingv1.IPAddress{
				ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{
					networkingv1.LabelIPAddressFamily: string(check.FamilyOf(ip)),
					networkingv1.LabelManagedBy:       managedBy,
				}},
				Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: services, Namespace: namespace, Name: name}},
			}
		},
		Holder: func(obj runtime.Object) (namespace, name string, ok bool) {
			ip := obj.(*networkingv1.IPAddress)
			parent := ip.Spec.ParentRef
			if parent == nil || parent.Group != "" || parent.Resource != services || ip.Labels[networkingv1.LabelManagedBy] != managedBy {
				return "", "", false
			}
			return parent.Namespace, parent.Name, true
		},
	}
}
