package kubeconfig_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/client/kubeconfig"
)

// TestMergeInto: other entries stay, those of the same name are replaced, and a file of another kind is not touched.
func TestMergeInto(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	ours := func(server string) *kubeconfig.Config {
		return &kubeconfig.Config{
			Clusters:       map[string]kubeconfig.Cluster{"planekit": {Server: server}},
			Contexts:       map[string]kubeconfig.Context{"planekit": {Cluster: "planekit"}},
			CurrentContext: "planekit",
		}
	}
	if err := ours("https://first").MergeInto(file); err != nil { // there is no file yet
		t.Fatal(err)
	}
	theirs := &kubeconfig.Config{Clusters: map[string]kubeconfig.Cluster{"work": {Server: "https://work"}}, CurrentContext: "work"}
	for _, config := range []*kubeconfig.Config{theirs, ours("https://second")} {
		if err := config.MergeInto(file); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := kubeconfig.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if merged.Clusters["work"].Server != "https://work" || merged.Clusters["planekit"].Server != "https://second" || merged.CurrentContext != "planekit" {
		t.Errorf("MergeInto made %+v, want work at https://work, planekit at https://second, the current context planekit", merged)
	}
	const diary = "kind: Diary\n"
	if err := os.WriteFile(file, []byte(diary), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := theirs.MergeInto(file); err == nil {
		t.Error("a diary was taken for a kubeconfig")
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != diary {
		t.Errorf("the refused file is %q, %v, want %q", data, err, diary)
	}
}
