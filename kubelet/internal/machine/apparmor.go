package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// AppArmor returns why the kernel cannot enforce AppArmor profiles, from the directory sys of
// sysfs(5); nil if it can.
func AppArmor(sys string) error {
	_, err := os.Stat(filepath.Join(sys, "kernel/security/apparmor"))
	enabled, readErr := os.ReadFile(filepath.Join(sys, "module/apparmor/parameters/enabled"))
	if err != nil || readErr != nil || !strings.HasPrefix(string(enabled), "Y") {
		return errors.New("AppArmor is not enabled on the host")
	}
	return nil
}
