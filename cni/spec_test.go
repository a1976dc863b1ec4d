package cni_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/cni"
)

// spec reads an example of the specification's text, version 1.1.0.
func spec(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "spec", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// object decodes a configuration, without what the text's examples leave out: the version of prevResult,
// and the routes of ipam, which the list has.
func object(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var keys map[string]any
	if err := json.Unmarshal(data, &keys); err != nil {
		t.Fatalf("json.Unmarshal(%s): %v", data, err)
	}
	if prev, ok := keys["prevResult"].(map[string]any); ok {
		delete(prev, "cniVersion")
	}
	if ipam, ok := keys["ipam"].(map[string]any); ok {
		delete(ipam, "routes")
	}
	return keys
}

// TestExamplesOfTheSpecification attaches, checks and detaches the container of the specification's
// appendix. Each plugin answers with the text's result, and gets the text's configuration.
func TestExamplesOfTheSpecification(t *testing.T) {
	list, err := cni.LoadFile(filepath.Join("testdata", "spec", "network.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	invoker, err := cni.New(cni.Config{Dir: t.TempDir(), Executor: cni.ExecutorFunc(func(_ context.Context, c cni.Call) ([]byte, error) {
		name := c.Command + "-" + c.Type
		calls = append(calls, name)
		want := object(t, spec(t, name+".json"))
		if got := object(t, c.Stdin); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %v\nwant %v", name, got, want)
		}
		if c.IfName != "eth0" || c.Args.String() != "argA=foo" {
			t.Errorf("%s: environment %+v", name, c)
		}
		if c.Type == "portmap" { // the same result as that before it
			return spec(t, "result-tuning.json"), nil
		}
		return spec(t, "result-"+c.Type+".json"), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	r := cni.RuntimeConfig{
		ContainerID: "blue", NetNS: "/var/run/netns/blue", IfName: "eth0", Args: cni.Args{{Key: "argA", Value: "foo"}},
		Capabilities: map[string]any{
			"mac":          "00:11:22:33:44:66",
			"portMappings": []any{map[string]any{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}},
		},
	}
	result, err := invoker.Add(t.Context(), list, r)
	if err == nil {
		err = errors.Join(invoker.Check(t.Context(), list, r), invoker.Del(t.Context(), list, r))
	}
	if err != nil {
		t.Fatal(err)
	}
	const want = "ADD-bridge ADD-tuning ADD-portmap CHECK-bridge CHECK-tuning CHECK-portmap DEL-portmap DEL-tuning DEL-bridge"
	if got := strings.Join(calls, " "); got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
	if list.Version != "1.1.0" || result.Interfaces[2].Mac != "00:11:22:33:44:66" || result.IPs[0].Gateway.String() != "10.1.0.1" {
		t.Errorf("version %s, result %+v", list.Version, result)
	}
}

// TestResultsOfTheSpecification: every result of the text can be read, and says the same in every
// version but for what the version cannot express.
func TestResultsOfTheSpecification(t *testing.T) {
	for _, name := range []string{"result-host-local.json", "result-bridge.json", "result-tuning.json"} {
		first, err := cni.ParseResult(spec(t, name), "1.1.0")
		if err != nil {
			t.Fatalf("ParseResult(%s): %v", name, err)
		}
		for _, version := range cni.Versions() {
			data, err := first.Encode(version)
			if err != nil {
				t.Fatal(err)
			}
			again, err := cni.ParseResult(data, "")
			if err != nil || !reflect.DeepEqual(again, first) {
				t.Errorf("%s by %s: %v, %+v", name, version, err, again)
			}
		}
	}
	e := new(cni.Error)
	if err := json.Unmarshal(spec(t, "error.json"), e); err != nil || e.Code != cni.CodeInvalidConfig || !strings.Contains(e.Error(), "192.168.0.0/31 too small") {
		t.Errorf("json.Unmarshal(error.json) = %#v, %v, want the code %v and \"192.168.0.0/31 too small\"", e, err, cni.CodeInvalidConfig)
	}
}
