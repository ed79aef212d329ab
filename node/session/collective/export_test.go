package collective

// ShareMemory makes all generations of communicators use the same memory, or ends this sabotage.
func ShareMemory(on bool) { oneMemory = on }
