package typed_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}`)
	}))
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	nodes, revision, err := typed.Nodes(c).List(context.Background(), "", metav1.ListOptions{})
	fmt.Println(nodes[0].Name, revision, err)
	// Output: a 7 <nil>
}

// TestTable asks for an object of every type and looks at the path.
func TestTable(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Path
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for want, get := range map[string]func(namespace string) error{
		"/api/v1/namespaces/n/pods/x":            get(typed.Pods(c)),
		"/api/v1/nodes/x":                        get(typed.Nodes(c)),
		"/api/v1/namespaces/x":                   get(typed.Namespaces(c)),
		"/api/v1/namespaces/n/events/x":          get(typed.Events(c)),
		"/api/v1/namespaces/n/serviceaccounts/x": get(typed.ServiceAccounts(c)),
		"/api/v1/namespaces/n/secrets/x":         get(typed.Secrets(c)),
		"/api/v1/namespaces/n/configmaps/x":      get(typed.ConfigMaps(c)),

		"/apis/apps/v1/namespaces/n/deployments/x":                       get(typed.Deployments(c)),
		"/apis/apps/v1/namespaces/n/replicasets/x":                       get(typed.ReplicaSets(c)),
		"/apis/batch/v1/namespaces/n/jobs/x":                             get(typed.Jobs(c)),
		"/apis/coordination.k8s.io/v1/namespaces/n/leases/x":             get(typed.Leases(c)),
		"/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/x":        get(typed.Roles(c)),
		"/apis/rbac.authorization.k8s.io/v1/namespaces/n/rolebindings/x": get(typed.RoleBindings(c)),
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/x":              get(typed.ClusterRoles(c)),
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/x":       get(typed.ClusterRoleBindings(c)),

		"/api/v1/namespaces/n/services/x":                                           get(typed.Services(c)),
		"/api/v1/namespaces/n/endpoints/x":                                          get(typed.Endpoints(c)),
		"/api/v1/namespaces/n/limitranges/x":                                        get(typed.LimitRanges(c)),
		"/api/v1/namespaces/n/persistentvolumeclaims/x":                             get(typed.PersistentVolumeClaims(c)),
		"/api/v1/persistentvolumes/x":                                               get(typed.PersistentVolumes(c)),
		"/api/v1/namespaces/n/podtemplates/x":                                       get(typed.PodTemplates(c)),
		"/api/v1/namespaces/n/replicationcontrollers/x":                             get(typed.ReplicationControllers(c)),
		"/api/v1/namespaces/n/resourcequotas/x":                                     get(typed.ResourceQuotas(c)),
		"/apis/apps/v1/namespaces/n/controllerrevisions/x":                          get(typed.ControllerRevisions(c)),
		"/apis/apps/v1/namespaces/n/daemonsets/x":                                   get(typed.DaemonSets(c)),
		"/apis/apps/v1/namespaces/n/statefulsets/x":                                 get(typed.StatefulSets(c)),
		"/apis/batch/v1/namespaces/n/cronjobs/x":                                    get(typed.CronJobs(c)),
		"/apis/certificates.k8s.io/v1/certificatesigningrequests/x":                 get(typed.CertificateSigningRequests(c)),
		"/apis/certificates.k8s.io/v1beta1/clustertrustbundles/x":                   get(typed.ClusterTrustBundles(c)),
		"/apis/discovery.k8s.io/v1/namespaces/n/endpointslices/x":                   get(typed.EndpointSlices(c)),
		"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/x":                       get(typed.FlowSchemas(c)),
		"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/x":       get(typed.PriorityLevelConfigurations(c)),
		"/apis/networking.k8s.io/v1/namespaces/n/ingresses/x":                       get(typed.Ingresses(c)),
		"/apis/networking.k8s.io/v1/ingressclasses/x":                               get(typed.IngressClasses(c)),
		"/apis/networking.k8s.io/v1/namespaces/n/networkpolicies/x":                 get(typed.NetworkPolicies(c)),
		"/apis/networking.k8s.io/v1/ipaddresses/x":                                  get(typed.IPAddresses(c)),
		"/apis/networking.k8s.io/v1/servicecidrs/x":                                 get(typed.ServiceCIDRs(c)),
		"/apis/node.k8s.io/v1/runtimeclasses/x":                                     get(typed.RuntimeClasses(c)),
		"/apis/policy/v1/namespaces/n/poddisruptionbudgets/x":                       get(typed.PodDisruptionBudgets(c)),
		"/apis/scheduling.k8s.io/v1/priorityclasses/x":                              get(typed.PriorityClasses(c)),
		"/apis/storage.k8s.io/v1/csidrivers/x":                                      get(typed.CSIDrivers(c)),
		"/apis/storage.k8s.io/v1/csinodes/x":                                        get(typed.CSINodes(c)),
		"/apis/storage.k8s.io/v1/namespaces/n/csistoragecapacities/x":               get(typed.CSIStorageCapacities(c)),
		"/apis/storage.k8s.io/v1/storageclasses/x":                                  get(typed.StorageClasses(c)),
		"/apis/storage.k8s.io/v1/volumeattachments/x":                               get(typed.VolumeAttachments(c)),
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/x":     get(typed.MutatingWebhookConfigurations(c)),
		"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/x":         get(typed.MutatingAdmissionPolicies(c)),
		"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/x":   get(typed.MutatingAdmissionPolicyBindings(c)),
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/x":       get(typed.ValidatingAdmissionPolicies(c)),
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/x": get(typed.ValidatingAdmissionPolicyBindings(c)),
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/x":   get(typed.ValidatingWebhookConfigurations(c)),
	} {
		namespace := ""
		if strings.Contains(want, "/namespaces/n/") {
			namespace = "n"
		}
		got = ""
		if err := get(namespace); !apierrors.IsNotFound(err) {
			t.Errorf("Get of %s: %v, want NotFound", want, err)
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func get[T client.Object](r client.Resource[T]) func(namespace string) error {
	return func(namespace string) error {
		_, err := r.Get(context.Background(), namespace, "x")
		return err
	}
}
