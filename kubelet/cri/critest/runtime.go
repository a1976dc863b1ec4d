package critest

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func checkVersion(e *env) {
	v, err := e.Runtime.Version(e.ctx, &runtimeapi.VersionRequest{Version: "v1"})
	e.succeeds(err, "version")
	for name, value := range map[string]string{
		"version": v.GetVersion(), "name": v.GetRuntimeName(), "runtime version": v.GetRuntimeVersion(), "API version": v.GetRuntimeApiVersion(),
	} {
		if value == "" {
			e.Errorf("the %s is empty", name)
		}
	}
}

// checkConditions expects each of the conditions that Kubernetes defines once.
func checkConditions(e *env) {
	out, err := e.Runtime.Status(e.ctx, &runtimeapi.StatusRequest{})
	e.succeeds(err, "status")
	found := map[string]int{}
	for _, c := range out.GetStatus().GetConditions() {
		found[c.GetType()]++
		if required := c.GetType() == runtimeapi.RuntimeReady || c.GetType() == runtimeapi.NetworkReady; required && !c.GetStatus() {
			e.Errorf("%s is false: %s: %s", c.GetType(), c.GetReason(), c.GetMessage())
		}
	}
	for _, kind := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		if found[kind] != 1 {
			e.Errorf("there are %d conditions %s", found[kind], kind)
		}
	}
}
