package offline

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// pauseCode is the whole pause program, by architecture: it ignores SIGCHLD, so
// that the kernel reaps the processes of a shared PID namespace for it, and then
// sleeps until it is killed. System call numbers are those of the Linux ABI.
//
// It is machine code rather than a compiled program because the image is built
// where there may be no compiler, and because every pod keeps one in memory.
var pauseCode = map[string][]byte{
	// The stack below rsp is zero at process start only by luck, so the
	// sigaction is pushed: mask 0, restorer 0, flags 0, handler SIG_IGN (1).
	"amd64": {
		0x31, 0xc0, // xor eax, eax
		0x50,       // push rax              mask
		0x50,       // push rax              restorer
		0x50,       // push rax              flags
		0x6a, 0x01, // push 1                handler = SIG_IGN
		0xbf, 17, 0, 0, 0, // mov edi, 17    SIGCHLD
		0x48, 0x89, 0xe6, // mov rsi, rsp    new action
		0x31, 0xd2, // xor edx, edx          no old action
		0x41, 0xba, 8, 0, 0, 0, // mov r10d, 8   size of the mask
		0xb8, 13, 0, 0, 0, // mov eax, 13    rt_sigaction
		0x0f, 0x05, // syscall
		0xb8, 34, 0, 0, 0, // mov eax, 34    pause
		0x0f, 0x05, // syscall
		0xeb, 0xf7, // jmp to mov eax, 34
	},
	// arm64 has no pause: ppoll with nothing to wait for does the same.
	"arm64": words(
		0xd2800028, // mov x8, #1            SIG_IGN
		0xf81e0fe8, // str x8, [sp, #-32]!   handler
		0xa900ffff, // stp xzr, xzr, [sp, #8] flags, restorer
		0xf9000fff, // str xzr, [sp, #24]    mask
		0xd2800220, // mov x0, #17           SIGCHLD
		0x910003e1, // mov x1, sp            new action
		0xd2800002, // mov x2, #0            no old action
		0xd2800103, // mov x3, #8            size of the mask
		0xd28010c8, // mov x8, #134          rt_sigaction
		0xd4000001, // svc #0
		0xd2800000, // mov x0, #0
		0xd2800001, // mov x1, #0
		0xd2800002, // mov x2, #0
		0xd2800003, // mov x3, #0
		0xd2800928, // mov x8, #73           ppoll
		0xd4000001, // svc #0
		0x17fffffa, // b to the first of the five before svc
	),
}

func words(instructions ...uint32) []byte {
	var code []byte
	for _, i := range instructions {
		code = binary.LittleEndian.AppendUint32(code, i)
	}
	return code
}

// pauseBinary wraps the code for arch in the smallest ELF file that Linux
// loads: one header, one readable and executable segment.
func pauseBinary(arch string) ([]byte, error) {
	code, ok := pauseCode[arch]
	if !ok {
		return nil, fmt.Errorf("no pause program for architecture %q", arch)
	}
	const (
		base       = 0x400000
		headerSize = 64
		phSize     = 56
	)
	machine := map[string]uint16{"amd64": 62, "arm64": 183}[arch] // ELF e_machine
	size := uint64(headerSize + phSize + len(code))
	var b bytes.Buffer
	b.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	for _, field := range []any{
		uint16(2), machine, uint32(1), // executable file, machine, version
		uint64(base + headerSize + phSize), uint64(headerSize), uint64(0), // entry, program headers, no sections
		uint32(0), uint16(headerSize), uint16(phSize), uint16(1), // flags, sizes, one program header
		uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), // PT_LOAD, readable and executable
		uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000),
	} {
		// Writing fixed-size numbers into a bytes.Buffer cannot fail.
		_ = binary.Write(&b, binary.LittleEndian, field)
	}
	b.Write(code)
	return b.Bytes(), nil
}
