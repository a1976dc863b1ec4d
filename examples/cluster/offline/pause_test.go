package offline

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestPauseIsAnExecutable(t *testing.T) {
	for arch := range pauseCode {
		binary, err := pauseBinary(arch)
		if err != nil {
			t.Fatal(err)
		}
		file, err := elf.NewFile(bytes.NewReader(binary))
		if err != nil {
			t.Fatalf("elf.NewFile of the binary for %s: %v", arch, err)
		}
		if file.Type != elf.ET_EXEC || len(file.Progs) != 1 || file.Entry != file.Progs[0].Vaddr+120 {
			t.Errorf("%s: unexpected file %+v", arch, file.FileHeader)
		}
	}
	if _, err := pauseBinary("pdp11"); err == nil {
		t.Error("no error for an unknown architecture")
	}
}

func TestPauseSleepsUntilKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the pause program is for Linux")
	}
	binary, err := pauseBinary(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(path, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()

	// SIGCHLD must not wake it for good, and it must not have crashed.
	if err := cmd.Process.Signal(syscall.SIGCHLD); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("pause ended by itself: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-done
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("pause ended with %v, want SIGKILL", status)
	}
}
