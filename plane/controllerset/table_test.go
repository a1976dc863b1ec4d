package controllerset

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/reconcile/controllers/node"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestTable checks that each row has a maker and the names of kube-controller-manager.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	last := ""
	for _, c := range table() {
		if !strings.HasSuffix(c.Name, "-controller") || c.Name <= last || c.New == nil {
			t.Errorf("the row after %q is %+v, want a later name that ends with -controller, and a New", last, c)
		}
		last = c.Name
		for _, name := range []string{c.Name, c.Alias} {
			if name != "" && seen[name] {
				t.Errorf("%s twice", name)
			}
			seen[name] = true
		}
	}
}

// TestEveryControllerIsInTheTable checks that the makers call each constructor of a controller in
// reconcile/controllers.
func TestEveryControllerIsInTheTable(t *testing.T) {
	var makers []byte
	for _, name := range []string{"table.go", "addresses.go", "autoscaler.go", "certificates.go", "policystatus.go"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		makers = append(makers, source...)
	}
	files, err := filepath.Glob("../../reconcile/controllers/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	constructor := regexp.MustCompile(`(?m)^func (New\w*)\(config \w*Config\)`)
	var all int
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range constructor.FindAllSubmatch(source, -1) {
			all++
			call := filepath.Base(filepath.Dir(name)) + "." + string(found[1]) + "("
			if !strings.Contains(string(makers), call) {
				t.Errorf("no row of the table calls %s)", call)
			}
		}
	}
	if all++; all != len(table()) { // service-lb-controller is of another package
		t.Errorf("%d constructors, %d rows", all, len(table()))
	}
}

// TestAccounts checks that the bootstrap policy grants a role to each account but those of the
// controllers that kube-controller-manager does not have.
func TestAccounts(t *testing.T) {
	roles, _ := rbac.BootstrapPolicy()
	namespaced, _ := rbac.BootstrapNamespacedPolicy()
	for _, c := range table() {
		name := "system:controller:" + c.Account
		if c.Account == ServingApproverAccount || c.Account == AddressRepairAccount || slices.ContainsFunc(namespaced, func(r *rbacv1.Role) bool { return r.Name == name }) {
			continue
		}
		if c.Account != "" && !slices.ContainsFunc(roles, func(r *rbacv1.ClusterRole) bool { return r.Name == name }) {
			t.Errorf("%s: no role %s", c.Name, name)
		}
	}
}

// TestSkipped checks that chosen controllers that the configuration lacks something for are logged
// and returned, and that controllers which are not chosen are not.
func TestSkipped(t *testing.T) {
	for name, test := range map[string]struct {
		config Config
		want   string
	}{
		"all": {Config{}, "[{certificatesigningrequest-signing-controller no Authority} {node-ipam-controller no PodCIDR} {root-ca-certificate-publisher-controller no RootCA} {serviceaccount-token-controller no SignToken}]"},
		"no signer": {
			Config{RootCA: []byte("pem"), PodCIDR: netip.MustParsePrefix("10.244.0.0/16")},
			"[{certificatesigningrequest-signing-controller no Authority} {serviceaccount-token-controller no SignToken}]",
		},
		"chosen": {Config{Options: Options{Choose: []string{"nodeipam", "job"}}}, "[{node-ipam-controller no PodCIDR}]"},
	} {
		t.Run(name, func(t *testing.T) {
			var logged []string
			test.config.Log = funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})
			test.config.ClientFor = func(*user.Info, string) (*client.Client, error) { return &client.Client{}, nil }
			set, err := New(test.config)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(set.Skipped()); got != test.want {
				t.Errorf("skipped %s, want %s", got, test.want)
			}
			for i, s := range set.Skipped() {
				if i >= len(logged) || !strings.Contains(logged[i], s.Name) || !strings.Contains(logged[i], s.Reason) {
					t.Errorf("%v is not in the log: %q", s, logged)
				}
			}
			if len(logged) != len(set.Skipped()) {
				t.Errorf("logged %q", logged)
			}
		})
	}
}

// TestTuning checks that each setting reaches its own controller.
func TestTuning(t *testing.T) {
	c := &Config{Options: Options{Tuning: Tuning{
		NodeGrace: 7 * time.Second, NodeStartupGrace: 8 * time.Second, Evictions: node.EvictionLimits{Rate: 1, SlowRate: 2, Unhealthy: 0.3, Large: 4},
		SliceEndpoints: 5, MirroredEndpoints: 6, EndpointsBatch: time.Second, SlicesBatch: 2 * time.Second, MirrorsBatch: 3 * time.Second,
	}}}
	e := &Env{Caches: &caches.Caches{}, config: c}
	node := e.nodeLifecycleConfig()
	if node.Grace != 7*time.Second || node.StartupGrace != 8*time.Second || node.Limits != c.Tuning.Evictions {
		t.Errorf("nodeLifecycleConfig() has Grace %v, StartupGrace %v and Limits %+v, want 7s, 8s and %+v",
			node.Grace, node.StartupGrace, node.Limits, c.Tuning.Evictions)
	}
	got := [3]time.Duration{e.legacyEndpointsConfig().BatchPeriod, e.endpointSliceConfig().BatchPeriod, e.endpointSliceMirrorConfig().BatchPeriod}
	if want := [3]time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if slices, mirrors := e.endpointSliceConfig().MaxEndpoints, e.endpointSliceMirrorConfig().MaxEndpoints; slices != 5 || mirrors != 6 {
		t.Errorf("%d endpoints, %d mirrored", slices, mirrors)
	}
}
