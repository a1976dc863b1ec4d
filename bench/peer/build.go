package peer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tags are the build tags of Kubernetes' releases that matter to an API server. planekit's programs
// have the same, and all are built without C, like the releases.
const tags = "grpcnotrace"

// Build compiles programs of the module at module into bin, stripped.
func Build(ctx context.Context, bin, module string, programs ...string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	return compile(ctx, bin+string(filepath.Separator), module, tags, programs)
}

// BuildAs compiles one program of the module at module into the file out, with additional build
// tags.
func BuildAs(ctx context.Context, out, module, more, program string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	return compile(ctx, out, module, tags+","+more, []string{program})
}

func compile(ctx context.Context, out, module, tags string, programs []string) error {
	arguments := []string{"build", "-trimpath", "-ldflags=-s -w", "-tags=" + tags, "-o", out}
	cmd := exec.CommandContext(ctx, "go", append(arguments, programs...)...)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", programs, err, out)
	}
	return nil
}

// Module returns the directory of this module, which has the stock programs; planekit's module is
// in its parent.
func Module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}

// Size returns the size of a program and the number of modules that it links.
func Size(ctx context.Context, program string) (bytes int64, modules int, err error) {
	info, err := os.Stat(program)
	if err != nil {
		return 0, 0, err
	}
	out, err := exec.CommandContext(ctx, "go", "version", "-m", program).Output()
	return info.Size(), strings.Count(string(out), "\n\tdep\t"), err
}
