package sqlite

import "syscall"

func diskOf(folder string) (d disk, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return d, false
	}
	return disk{kind: int64(s.Type) & 0xffffffff, free: s.Bavail * uint64(s.Bsize), total: s.Blocks * uint64(s.Bsize)}, true
}
