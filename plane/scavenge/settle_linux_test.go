package scavenge

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestSettle checks that most pages of the program leave the process, which goes on.
func TestSettle(t *testing.T) {
	mapped := func() int {
		data, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(data)
		if match == nil {
			t.Fatalf("/proc/self/status has no RssFile: %s", data)
		}
		n, err := strconv.Atoi(string(match[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		before := mapped()
		Settle()
		if err := releaseProgram(); err != nil {
			t.Fatalf("releaseProgram() = %v, want nil", err)
		}
		after := mapped()
		t.Logf("%d kB of files before, %d kB after", before, after)
		if after > before*3/4 {
			t.Errorf("Settle() leaves %d kB of files of %d kB, want less than three quarters", after, before)
		}
		if _, err := os.Stat(program); err != nil {
			t.Error(err)
		}
	}
}
