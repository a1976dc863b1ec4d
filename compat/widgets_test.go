package compat

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKubectlWidgets: kubectl uses a custom type, served by examples/widgets.
func TestKubectlWidgets(t *testing.T) {
	shows(t, "kubectl", "a Go type of one's own (`examples/widgets`): create, get with its columns, wait for its controller, explain, patch, validation, short names")
	dir := t.TempDir()
	program := filepath.Join(dir, "served")
	build := exec.Command("go", "build", "-o", program, "./examples/widgets")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	server := exec.Command(program, "--address", "127.0.0.1:0")
	server.Dir, server.Stderr = dir, os.Stderr
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT)
		if err := server.Wait(); err != nil {
			t.Errorf("the program ended with %v", err)
		}
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	red := "{apiVersion: example.com/v1, kind: Widget, metadata: {name: one}, color: red}"
	for _, step := range []struct {
		stdin, arguments, want string
	}{
		{red, "create -f -", "widget.example.com/one created"},
		{"", "wait wd/one --for=jsonpath={.painted}=red --timeout=10s", "condition met"},
		{"", "get widgets", "NAME   COLOR   PAINTED\none    red     red\n"},
		{"", "patch widget one --type=merge -p {\"color\":\"blue\"}", "patched"},
		{"", "wait wd/one --for=jsonpath={.painted}=blue --timeout=10s", "condition met"},
		{"", "explain widget", "color\t<string> -required-"},
		{"", "label wd one shiny=yes", "labeled"},
		{"", "get wd -l shiny -o jsonpath={.items[*].color}", "blue"},
		{strings.ReplaceAll(red, "red", "mauve"), "apply -f -", `supported values: "blue", "green", "red"`},
		{strings.ReplaceAll(red, "color", "colour"), "apply -f -", `unknown field "colour"`},
		{"", "api-resources --api-group=example.com", "widgets   wd           example.com/v1   true         Widget"},
		{"", "delete widget one", "deleted"},
	} {
		cmd := exec.Command(filepath.Join(kubectl(t), "kubectl"), append([]string{"--kubeconfig", "widgets/kubeconfig"}, strings.Fields(step.arguments)...)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(step.stdin)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, _ := cmd.CombinedOutput() // some steps must fail
		if !strings.Contains(string(out), step.want) {
			t.Errorf("kubectl %s:\n%s\nwant %s", step.arguments, out, step.want)
		}
	}
}
